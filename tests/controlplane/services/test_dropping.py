"""Writes that take all or most of what serves out at once are confirmed; others are not."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from controlplane.models import AuditEntry, Fleet, Replica
from controlplane.publishing import publisher
from controlplane.services import confirmation, fleets, replicas
from controlplane.services.dropping import ServingReplica, drop_between, serving
from tests.controlplane.conftest import LLM, Api


def of(*names: str) -> frozenset[ServingReplica]:
    """``fleet/replica``, or ``fleet/replica@url``."""
    found = []
    for name in names:
        path, _, url = name.partition("@")
        fleet, _, replica = path.partition("/")
        found.append(ServingReplica(fleet, replica, url))
    return frozenset(found)


FOUR = of("x/a", "x/b", "y/a", "y/b")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (of(), of()),
        (of(), FOUR),
        (FOUR, FOUR),
        (FOUR, FOUR | of("z/a")),
        (FOUR, of("x/a", "x/b", "y/a")),
        (FOUR, of("x/a", "y/a")),
        (of("x/a", "x/b"), of("x/a", "x/b@moved")),
    ],
)
def test_at_most_half_needs_nothing(
    before: frozenset[ServingReplica], after: frozenset[ServingReplica]
) -> None:
    assert drop_between(before, after) is None


@pytest.mark.parametrize(
    ("before", "after", "lost", "fleets"),
    [
        (FOUR, of(), 4, ["x", "y"]),
        (FOUR, of("x/a"), 3, ["y"]),
        (FOUR, of("x/a", "x/b"), 2, ["y"]),
        (of("x/a"), of("x/a@moved"), 1, ["x"]),
        (FOUR, of("x/a", "x/b", "y/c", "y/d"), 2, ["y"]),
        (of("x/a", "x/b", "x/c", "y/a", "y/b", "y/c"), of("x/a", "y/a", "y/b", "y/c"), 2, []),
        (of("x/a", "y/a", "z/a", "z/b", "z/c", "z/d"), of("z/a", "z/b", "z/c", "z/d"), 2, ["x", "y"]),
    ],
)
def test_most_is_told(
    before: frozenset[ServingReplica], after: frozenset[ServingReplica], lost: int, fleets: list[str]
) -> None:
    drop = drop_between(before, after)
    assert drop is not None
    assert (len(drop.lost), drop.fleets, drop.before) == (lost, fleets, len(before))
    assert drop.words.startswith(f"{lost} of {len(before)} replicas that take requests go out at once: ")


def test_the_token_stands_for_this_loss() -> None:
    everything, some = drop_between(FOUR, of()), drop_between(FOUR, of("x/a"))
    assert everything is not None
    assert some is not None
    assert everything.token == drop_between(FOUR, of()).token  # type: ignore[union-attr]
    assert everything.token != some.token


def test_the_token_stands_for_what_is_left_too() -> None:
    """Another change has made the same loss worse: it is shown anew."""
    five, four = of("x/a", "x/b", "x/c", "x/d", "x/e"), of("x/a", "x/b", "x/c", "x/d")
    lost = of("x/a", "x/b", "x/c")
    shown, worse = drop_between(five, five - lost), drop_between(four, four - lost)
    assert shown is not None
    assert worse is not None
    assert shown.lost == worse.lost
    assert (shown.left, worse.left) == ({"x": 2}, {"x": 1})
    assert shown.is_confirmed_by(shown.token)
    assert not worse.is_confirmed_by(shown.token)


def test_a_token_holds_for_some_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    period = confirmation._period()
    monkeypatch.setattr(confirmation, "_period", lambda: period)
    drop = drop_between(FOUR, of())
    assert drop is not None
    token = drop.token
    period += 1
    assert drop.is_confirmed_by(token)
    period += 1
    assert not drop.is_confirmed_by(token)


def test_long_lists_are_cut() -> None:
    drop = drop_between(of(*(f"f{number}/a" for number in range(9))), of())
    assert drop is not None
    assert "f0/a, f1/a, f2/a, f3/a, f4/a and 4 more." in drop.words
    assert drop.words.endswith("left of fleets f0, f1, f2, f3, f4 and 4 more.")


def test_what_serves(make_fleet: Callable[..., str], api: Api) -> None:
    for name, weight in (("idle", 0.0), ("big", 4.0)):
        api.post("/hardware-classes", {"name": name, "weight": weight})
    rows: list[dict[str, Any]] = [
        {"name": "plain"},
        {"name": "drained", "admin_state": "draining"},
        {"name": "off", "weight": 0},
        {"name": "class-off", "hardware": "idle"},
        {"name": "own-weight", "hardware": "idle", "weight": 1},
        {"name": "class-on", "hardware": "big"},
    ]
    make_fleet("llm", replicas=[{"url": f"http://10.0.0.1:{80 + n}", **row} for n, row in enumerate(rows)])
    assert {one.replica for one in serving()} == {"plain", "own-weight", "class-on"}


# --- A fleet file ---

NOTHING = "version: 1\nfleets: []\n"


@pytest.fixture
def apply(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def apply(text: str, *flags: str) -> str:
        (tmp_path / "fleets.yaml").write_text(text)
        capsys.readouterr()
        call_command("apply", str(tmp_path / "fleets.yaml"), *flags)
        return str(capsys.readouterr().out)

    return apply


def test_an_empty_file_with_prune_removes_nothing_unconfirmed(
    llm: str, apply: Callable[..., str], redis_client: Any
) -> None:
    before = AuditEntry.objects.count()
    with pytest.raises(CommandError) as refused:
        apply(NOTHING, "--prune")
    assert "2 of 2 replicas that take requests go out at once: llm/a, llm/b." in str(refused.value)
    assert "Nothing that serves now is left of fleet llm." in str(refused.value)
    assert "Nothing was changed. If that is meant: --confirm" in str(refused.value)
    assert (Fleet.objects.count(), Replica.objects.count()) == (1, 2)
    assert AuditEntry.objects.count() == before
    assert publisher.publish_all() == 0
    said = apply(NOTHING, "--prune", "--dry-run")
    assert "to be confirmed: 2 of 2 replicas" in said
    assert apply(NOTHING, "--prune", "--confirm") == "fleet llm: deleted\n"
    assert not Fleet.objects.exists()


@pytest.mark.parametrize(("answer", "left"), [("y", 0), ("", 1), ("no", 1)])
def test_at_a_terminal_it_asks(
    llm: str, apply: Callable[..., str], monkeypatch: pytest.MonkeyPatch, answer: str, left: int
) -> None:
    asked: list[str] = []

    def ask(question: str) -> str:
        asked.append(question)
        return answer

    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", ask)
    if left:
        with pytest.raises(CommandError, match="Nothing was changed"):
            apply(NOTHING, "--prune")
    else:
        assert "fleet llm: deleted" in apply(NOTHING, "--prune")
    assert asked == ["Apply? [y/N] "]
    assert Fleet.objects.count() == left


def test_a_file_with_other_addresses_for_all_is_asked_about(llm: str, apply: Callable[..., str]) -> None:
    """The file of another installation: the same names, other servers."""
    text = "version: 1\nfleets:\n  - name: llm\n    protocol: openai\n    aliases: [chat]\n    replicas:\n"
    rows = '      - {name: a, url: "http://10.1.0.1:80"}\n      - {name: b, url: "http://10.1.0.2:80"}\n'
    with pytest.raises(CommandError, match="2 of 2 replicas that take requests"):
        apply(text + rows)
    assert "a.url: " in apply(text + rows, "--confirm")


# --- The API ---


def test_a_class_with_weight_0_is_confirmed_with_the_token_of_that_loss(
    api: Api, make_fleet: Callable[..., str]
) -> None:
    api.post("/hardware-classes", {"name": "h100", "weight": 4})
    rows = [{"name": name, "url": f"http://{name}:80", "hardware": "h100"} for name in ("a", "b", "c")]
    make_fleet("llm", replicas=rows)
    refused = api.patch("/hardware-classes/h100", {"weight": 0})
    assert refused.status_code == 409
    assert refused["Content-Type"].startswith("application/problem+json")
    problem = refused.json()
    assert problem["detail"].startswith(
        "3 of 3 replicas that take requests go out at once: llm/a, llm/b, llm/c."
    )
    assert problem["detail"].endswith(f"?confirm={problem['confirm']}")
    assert api.get("/hardware-classes/h100").json()["weight"] == 4.0

    # Other changes go on meanwhile; after one that changes the loss, it is shown anew.
    assert api.patch("/fleets/llm/policy", {"slow_start_s": 3}).status_code == 200
    assert api.patch("/fleets/llm/replicas/c", {"admin_state": "draining"}).status_code == 200
    again = api.patch(f"/hardware-classes/h100?confirm={problem['confirm']}", {"weight": 0})
    assert again.status_code == 409
    assert again.json()["detail"].startswith("2 of 2 replicas")
    done = api.patch(f"/hardware-classes/h100?confirm={again.json()['confirm']}", {"weight": 0})
    assert (done.status_code, done.json()["weight"]) == (200, 0.0)
    assert serving() == frozenset()
    assert api.patch("/hardware-classes/h100", {"weight": 4}).status_code == 200, "what adds needs nothing"


def test_a_revision_with_weights_of_0(api: Api, llm: str) -> None:
    for name in ("a", "b"):
        assert api.patch(f"/fleets/llm/replicas/{name}", {"weight": 0}).status_code == 200, "one named thing"
    for name in ("a", "b"):
        api.patch(f"/fleets/llm/replicas/{name}", {"weight": 2})
    refused = api.post("/fleets/llm/revisions/3/restore")
    assert refused.status_code == 409
    assert "fleet llm" in refused.json()["detail"]
    path = f"/fleets/llm/revisions/3/restore?confirm={refused.json()['confirm']}"
    assert api.post(path).status_code == 200
    assert serving() == frozenset()


def test_a_deletion_of_one_named_thing_is_its_own_confirmation(api: Api, llm: str) -> None:
    assert api.patch("/fleets/llm/replicas/a", {"admin_state": "maintenance"}).status_code == 200
    assert api.delete("/fleets/llm/replicas/b").status_code == 204
    assert api.delete("/fleets/llm").status_code == 204
    fleets.create(LLM, "tests")
    replicas.delete("llm", "a", "tests")
    assert Replica.objects.count() == 1
