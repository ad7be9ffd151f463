"""``manage.py apply``, ``dump``, ``createtoken``, ``ensure_admin`` and the checks."""

import json
import re
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import CommandError

from controlplane.models import AuditEntry, Event, Fleet, ForcedPasswordChange, PolicyRevision, Replica
from controlplane.services import fleet_files, tokens
from routing.contract import redis_keys
from routing.contract.table import Match, decode_manifest, decode_snapshot
from tests.controlplane.conftest import Api

FILE = """\
version: 1
hardware:
  - {name: h100, weight: 4.0}
fleets:
  - name: llm
    protocol: openai
    aliases: [chat]
    default: true
    policy: {strategy: round_robin, timeouts: {total_s: 30}}
    probe: {preset: vllm, period_s: 5}
    replicas:
      - {name: a, url: "http://10.0.0.1:8000", hardware: h100, site: east}
      - {name: b, url: "http://10.0.0.2:8000", weight: 2.0, max_concurrency: 4}
  - name: digits
    protocol: open-inference
    served_model: mnist
    credential: "file:/etc/switchyard/digits.token"
    tls: {ca: "env:DIGITS_CA", server_name: digits.test}
    replicas:
      - {name: a, url: "https://10.0.0.3:8443", admin_state: draining, credential: "env:DIGITS_TOKEN"}
"""


def run(*words: Any, **options: Any) -> str:
    output = StringIO()
    call_command(*words, stdout=output, **options)
    return output.getvalue()


@pytest.fixture
def apply(tmp_path: Path) -> Any:
    def apply(text: str, **options: Any) -> list[str]:
        file = tmp_path / "fleets.yaml"
        file.write_text(text)
        return run("apply", str(file), **options).splitlines()

    return apply


def test_apply_makes_it_so_and_says_what_changed(apply: Any, redis_client: Any) -> None:
    assert apply(FILE) == [
        "hardware h100: created",
        "fleet llm: created with 2 replicas",
        "fleet digits: created with 1 replica",
    ]
    manifest = decode_manifest(redis_client.hget(redis_keys.MANIFEST, "body"))
    assert (set(manifest.fleets), manifest.default, manifest.aliases) == (
        {"llm", "digits"},
        "llm",
        {"chat": "llm"},
    )
    snapshot = decode_snapshot(redis_client.hget(redis_keys.fleet_key("llm"), "body"))
    assert snapshot.policy.strategy == "round_robin"
    assert snapshot.probe.period_s == 5.0
    assert [(r.name, r.weight, r.hardware, r.max_concurrency) for r in snapshot.replicas] == [
        ("a", 4.0, "h100", None),
        ("b", 2.0, "", 4),
    ]


def test_applying_twice_changes_nothing(apply: Any) -> None:
    apply(FILE)
    before = (list(Fleet.objects.values()), AuditEntry.objects.count(), Event.objects.count())
    assert apply(FILE) == ["Nothing to change."]
    assert (list(Fleet.objects.values()), AuditEntry.objects.count(), Event.objects.count()) == before


def test_apply_changes_what_differs(apply: Any, redis_client: Any) -> None:
    apply(FILE)
    text = FILE.replace("weight: 2.0", "weight: 3.0").replace("round_robin", "least_connections")
    text = text.replace("10.0.0.1", "10.0.0.9").replace("aliases: [chat]", "aliases: [talk]")
    text = text.replace("weight: 4.0", "weight: 8.0")
    assert apply(text) == [
        "hardware h100.weight: 4 → 8",
        "fleet llm: aliases: chat → none",
        "fleet llm: aliases: none → talk",
        "fleet llm: a.url: http://10.0.0.1:8000 → http://10.0.0.9:8000",
        "fleet llm: b.weight: 2 → 3",
        "fleet llm: strategy: round_robin → least_connections",
    ]
    # One revision holds the new policy and the new weights.
    assert PolicyRevision.objects.filter(fleet__name="llm").count() == 2
    assert PolicyRevision.objects.get(fleet__name="llm", number=2).weights == {"a": None, "b": 3.0}
    snapshot = decode_snapshot(redis_client.hget(redis_keys.fleet_key("llm"), "body"))
    assert [replica.weight for replica in snapshot.replicas] == [8.0, 3.0]


def test_replicas_come_and_go_with_the_file(apply: Any, redis_client: Any) -> None:
    apply(FILE)
    text = FILE.replace('{name: b, url: "http://10.0.0.2:8000"', '{name: c, url: "http://10.0.0.4:8000"')
    assert apply(text) == ["fleet llm: c: registered", "fleet llm: b: removed"]
    snapshot = decode_snapshot(redis_client.hget(redis_keys.fleet_key("llm"), "body"))
    assert [replica.name for replica in snapshot.replicas] == ["a", "c"]
    assert PolicyRevision.objects.filter(fleet__name="llm").count() == 1


def test_a_weight_alone_is_a_revision(apply: Any) -> None:
    apply(FILE)
    apply(FILE.replace("weight: 2.0", "weight: 3.0"))
    assert PolicyRevision.objects.get(fleet__name="llm", number=2).summary == "weights from a fleet file"


def test_an_operators_drain_outlives_a_file_that_does_not_speak_of_it(apply: Any, api: Api) -> None:
    apply(FILE)
    api.patch("/fleets/llm/replicas/a", {"admin_state": "draining"})
    assert apply(FILE) == ["Nothing to change."]
    assert api.get("/fleets/llm/replicas/a").json()["admin_state"] == "draining"


def test_an_alias_moves_from_one_fleet_to_another(apply: Any, redis_client: Any) -> None:
    apply(FILE)
    moved = FILE.replace("    aliases: [chat]\n", "").replace(
        "    served_model: mnist", "    served_model: mnist\n    aliases: [chat]"
    )
    apply(moved)
    manifest = decode_manifest(redis_client.hget(redis_keys.MANIFEST, "body"))
    assert manifest.aliases == {"chat": "digits"}


def test_an_adapter_moves_from_one_fleet_to_another_and_may_become_an_alias(
    apply: Any, redis_client: Any
) -> None:
    first = FILE.replace("aliases: [chat]", "aliases: [chat]\n    adapters: [sql, code]")
    apply(first)
    moved = FILE.replace("aliases: [chat]", "aliases: [sql]").replace(
        "    served_model: mnist", "    served_model: mnist\n    adapters: [code, chat]"
    )
    apply(moved)
    manifest = decode_manifest(redis_client.hget(redis_keys.MANIFEST, "body"))
    assert (manifest.aliases, manifest.adapters) == ({"sql": "llm"}, {"code": "digits", "chat": "digits"})
    assert apply(moved) == ["Nothing to change."]
    dumped = fleet_files.read()
    assert {fleet.name: fleet.adapters for fleet in dumped.fleets} == {"digits": ["code", "chat"], "llm": []}
    apply(first)
    assert {fleet.name: fleet.adapters for fleet in Fleet.objects.all()} == {
        "digits": [],
        "llm": ["sql", "code"],
    }


def test_an_adapter_moves_with_the_lists_of_replicas(apply: Any) -> None:
    """The file is right as a whole, so no step on the way to it is refused."""
    served = FILE.replace("aliases: [chat]", "aliases: [chat]\n    adapters: [sql, code]").replace(
        "name: a, ", "name: a, adapters: [sql], ", 1
    )
    apply(served)
    assert Replica.objects.get(fleet__name="llm", name="a").adapters == ["sql"]
    moved = FILE.replace("    served_model: mnist", "    served_model: mnist\n    adapters: [sql]")
    apply(moved)
    assert Replica.objects.get(fleet__name="llm", name="a").adapters is None
    with pytest.raises(CommandError, match=r'replicas\[0\].*the fleet has no adapter "sql"'):
        apply(moved.replace("name: a, ", "name: a, adapters: [sql], ", 1))


def test_an_adapter_of_a_fleet_that_stays_is_refused(apply: Any, make_fleet: Any) -> None:
    make_fleet("other", adapters=["chat"])
    with pytest.raises(CommandError, match=r"line \d+, column \d+.*already an adapter of fleet other"):
        apply(FILE)


def test_hosts_and_paths_are_part_of_a_file(apply: Any, redis_client: Any) -> None:
    """They may change places between two fleets in one step, and dump writes them."""
    one, two = "match: [{host: one.test, path_prefix: /v1}]", 'match: [{host: "*.two.test"}]'
    text = FILE.replace("aliases: [chat]", one).replace("served_model: mnist", two)
    apply(text)
    matches = decode_manifest(redis_client.hget(redis_keys.MANIFEST, "body")).matches
    assert matches == {
        "llm": [Match(host="one.test", path_prefix="/v1")],
        "digits": [Match(host="*.two.test")],
    }
    assert apply(text) == ["Nothing to change."]
    assert apply(run("dump")) == ["Nothing to change."]
    swapped = text.replace(one, "match: []").replace(two, one).replace("match: []", two)
    lines = apply(swapped)
    assert "fleet digits: match: none → host one.test path_prefix /v1" in lines
    assert set(decode_manifest(redis_client.hget(redis_keys.MANIFEST, "body")).matches) == {"llm", "digits"}
    assert apply(swapped) == ["Nothing to change."]


def test_the_default_moves_from_one_fleet_to_another(apply: Any, redis_client: Any) -> None:
    apply(FILE)
    moved = FILE.replace("    default: true\n", "").replace(
        "    served_model: mnist", "    served_model: mnist\n    default: true"
    )
    apply(moved)
    assert decode_manifest(redis_client.hget(redis_keys.MANIFEST, "body")).default == "digits"


def test_credentials_are_part_of_a_file(apply: Any) -> None:
    apply(FILE)
    moved = FILE.replace("file:/etc/switchyard/digits.token", "env:ALL").replace(
        "env:DIGITS_TOKEN", "env:ONE"
    )
    assert apply(moved) == [
        "fleet digits: credential: file:/etc/switchyard/digits.token → env:ALL",
        "fleet digits: a.credential: env:DIGITS_TOKEN → env:ONE",
    ]
    assert apply(moved) == ["Nothing to change."]


def test_prune_removes_what_the_file_does_not_name(apply: Any) -> None:
    apply(FILE)
    only_digits = "version: 1\nfleets:\n" + FILE[FILE.index("  - name: digits") :]
    assert apply(only_digits) == ["Nothing to change."]
    assert apply(only_digits, prune=True, confirm=True) == ["fleet llm: deleted", "hardware h100: deleted"]


def test_dump_is_a_file_that_changes_nothing(apply: Any) -> None:
    apply(FILE)
    text = run("dump")
    assert apply(text) == ["Nothing to change."]
    Fleet.objects.all().delete()
    apply(text)
    assert run("dump") == text


def test_errors_carry_line_and_column(apply: Any) -> None:
    with pytest.raises(CommandError) as refusal:
        apply(FILE.replace("round_robin", "round-robin").replace("period_s", "priod_s"))
    first, second = str(refusal.value).splitlines()
    assert re.search(r'fleets\.yaml: line 9, column \d+: .*did you mean "round_robin"', first)
    assert re.search(r"fleets\.yaml: line 10, column \d+: .*did you mean \"period_s\"", second)
    assert not Fleet.objects.exists()


def test_a_file_that_does_not_fit_what_is_there_changes_nothing(apply: Any, make_fleet: Any) -> None:
    make_fleet("other", aliases=["chat"])
    with pytest.raises(CommandError, match="already an alias of fleet other"):
        apply(FILE)
    assert list(Fleet.objects.values_list("name", flat=True)) == ["other"]


def test_conflicts_with_what_is_there_have_their_line_beside_all_else(apply: Any, make_fleet: Any) -> None:
    make_fleet("other", aliases=["chat", "digits"], match=[{"host": "one.test"}])
    text = FILE.replace("    served_model: mnist", "    served_model: mnist\n    match: [{host: One.test}]")
    text = text.replace("period_s", "priod_s") + "client_keys:\n  - {name: web, key: 'env:WEB'}\n"
    with pytest.raises(CommandError) as refusal:
        apply(text)
    said = [line.partition("fleets.yaml: ")[2] for line in str(refusal.value).splitlines()]
    lines = text.splitlines()

    def line_of(part: str) -> int:
        return next(number for number, line in enumerate(lines, 1) if part in line)

    cut = [re.sub(r"line (\d+), column \d+", r"\1", line).partition(": choose")[0] for line in said]
    alias, probe, name, match, keys = map(
        line_of, ("aliases: [chat]", "priod_s", "name: digits", "One.test", "client_keys")
    )
    assert cut == [
        f'{alias}: fleets[0].aliases[0]: the alias "chat" is already an alias of fleet other',
        f'{probe}: fleets[0].probe.priod_s: unknown field "priod_s"; did you mean "period_s"?',
        f'{name}: fleets[1].name: the name "digits" is already an alias of fleet other',
        f"{match}: fleets[1].match[0]: host one.test leads to fleet other already: "
        "fleet digits needs another host or path",
        f"{keys}: client_keys: client keys are made on the page “Client keys” or at /api/v1/client-keys: "
        "those of a fleet file are for a proxy that runs from the file alone; remove them",
    ]
    assert list(Fleet.objects.values_list("name", flat=True)) == ["other"]


def test_names_that_go_away_with_prune_are_free(apply: Any, make_fleet: Any) -> None:
    make_fleet("other", aliases=["chat"], match=[{"host": "one.test"}])
    assert "fleet other: deleted" in apply(FILE, prune=True)
    assert Fleet.objects.get(name="llm").aliases == ["chat"]


def test_a_dry_run_says_what_would_change_and_changes_nothing(apply: Any, redis_client: Any) -> None:
    apply(FILE)
    before = list(Fleet.objects.values()), Event.objects.count(), redis_client.hgetall(redis_keys.MANIFEST)
    text = FILE.replace("aliases: [chat]", "aliases: [talk]")
    wanted = ["fleet llm: aliases: chat → none", "fleet llm: aliases: none → talk"]
    assert apply(text, dry_run=True) == [*wanted, "Nothing was written: this was a dry run."]
    assert before == (
        *(list(Fleet.objects.values()), Event.objects.count()),
        redis_client.hgetall(redis_keys.MANIFEST),
    )
    assert apply(text) == wanted
    assert apply(text, dry_run=True) == ["Nothing to change."]


def test_a_missing_file_is_one_sentence() -> None:
    with pytest.raises(CommandError, match=r"nowhere\.yaml: No such file"):
        run("apply", "/tmp/nowhere.yaml")


def test_createtoken(operator: User) -> None:
    token = run("createtoken", "anna", "deploy").strip()
    row = tokens.verify(token)
    assert row is not None
    assert (row.user, row.name) == (operator, "deploy")
    with pytest.raises(CommandError, match="no user otto"):
        run("createtoken", "otto", "x")
    limited = ("--role", "operate", "--labels", "team=search", "--expires-in-days", "30", "--service")
    row = tokens.verify(run("createtoken", "anna", "ci", *limited).strip())
    assert row is not None
    assert (row.role, row.selector, row.service) == ("operate", {"team": "search"}, True)
    assert row.expires_at is not None
    for wrong, words in (
        (("--expires-in-days", "36501"), "from 1 to 36500 days"),
        (("--labels", "team"), "write it as team=search"),
    ):
        with pytest.raises(CommandError, match=words):
            run("createtoken", "anna", "x", *wrong)


def test_ensure_admin_prints_a_password_once() -> None:
    first = run("ensure_admin")
    password = re.search(r"One-time password: (\S+)", first)
    assert password is not None
    assert User.objects.get(username="admin").check_password(password[1])
    assert run("ensure_admin") == "An administrator exists already.\n"
    assert json.loads(run("ensure_admin", json=True)) == {"name": None, "password": None}


@pytest.mark.parametrize("may_change", [False, True])
def test_createaccount_makes_one_that_may_look_or_change(may_change: bool) -> None:
    said = run("createaccount", "leo", may_change=may_change)
    password = re.search(r"One-time password: (\S+)", said)
    assert password is not None
    user = User.objects.get(username="leo")
    assert (user.check_password(password[1]), user.is_staff, user.is_superuser) == (True, may_change, False)
    assert ForcedPasswordChange.objects.filter(user=user).exists()
    assert AuditEntry.objects.get(target="leo").after["roles"] == [
        f"{'administer' if may_change else 'read'} all fleets"
    ]
    caller = Api(tokens.create(user, "laptop", "tests")[1])
    ForcedPasswordChange.objects.all().delete()
    assert caller.get("/fleets").status_code == 200
    made = caller.post("/fleets", {"name": "llm", "protocol": "openai"})
    assert made.status_code == (201 if may_change else 403)


def test_createaccount_refuses_names_that_are_taken_or_none(operator: User) -> None:
    with pytest.raises(CommandError, match="There is an account Anna already: choose another name"):
        run("createaccount", "Anna")
    for name in ("", "leo and anna", "x" * 151):
        with pytest.raises(CommandError, match="name: "):
            run("createaccount", name)
    assert User.objects.count() == 1


def test_migrations_are_complete_and_checks_pass() -> None:
    run("makemigrations", check=True, dry_run=True)
    run("check")


def test_checks_warn_of_public_hosts_without_tls(settings: Any) -> None:
    from controlplane.config.system_checks import public_without_tls, static_files_collected

    assert public_without_tls(None) == []
    settings.ALLOWED_HOSTS = ["fleet.example"]
    assert [message.id for message in public_without_tls(None)] == ["switchyard.W001"]
    settings.COLLECTED_STATIC = True
    assert [message.id for message in static_files_collected(None)] == ["switchyard.W002"]
