"""The installation id: a Redis takes tables of one installation only, and of one of its databases."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from controlplane.datastores import database_place
from controlplane.models import AuditEntry, Event, Fleet, TableState
from controlplane.publishing import installation, publisher
from controlplane.publishing.installation import Identity, NotOurRedis
from controlplane.services import fleets, policies
from routing.contract import redis_keys
from routing.contract.table import Manifest, Version, decode_manifest, decode_snapshot
from routing.contract.telemetry import FleetCounters, WorkerReport
from tests.controlplane.conftest import LLM, Api
from tests.controlplane.telemetry.reports import report, send
from tests.ports import free_ports, free_run
from tests.proxy_process import ROOT


def manifest(client: Any) -> Manifest:
    return decode_manifest(client.hget(redis_keys.MANIFEST, "body"))


def bound(client: Any) -> str:
    return (client.hget(redis_keys.INSTALLATION, "id") or b"").decode()


def become_another(**fields: Any) -> str:
    """From now on this is the database of another installation; its id."""
    TableState.objects.update(installation="", instance="", place="", succeeded=[], **fields)
    publisher._contents_compared.clear()
    return installation.identity().id


def become_a_copy() -> None:
    """As a copy of the database's files is: with all of its rows, in another place."""
    TableState.objects.update(place="elsewhere")
    installation._place_checked.clear()
    publisher._contents_compared.clear()
    installation.identity()


def hold_as_another_process(ours: Identity) -> None:
    installation._Held.instance = ""
    installation.hold(ours)


def follower(installation_id: str, manifest: str = "1:1", *fleets: str) -> WorkerReport:
    """The report of a worker that routes for this installation."""
    counters = [FleetCounters(name=name) for name in fleets]
    return report(installation=installation_id, manifest=manifest, fleets=counters)


def test_the_id_is_made_once_and_binds_redis(llm: str, redis_client: Any) -> None:
    ours = installation.identity()
    assert len(ours.id) == 36
    assert ours == installation.identity()
    assert bound(redis_client) == ours.id == manifest(redis_client).installation
    snapshot = decode_snapshot(redis_client.hget(redis_keys.fleet_key("llm"), "body"))
    assert snapshot.installation == ours.id


def test_an_empty_database_is_refused_and_the_table_stays(llm: str, redis_client: Any) -> None:
    """A lost volume, a mistyped URL: what the first minute of every new installation does."""
    before, ours = redis_client.hgetall(redis_keys.MANIFEST), bound(redis_client)
    Fleet.objects.all().delete()
    assert become_another(manifest_version=99, epoch=7) != ours
    with pytest.raises(NotOurRedis, match=f"belongs to another installation, {ours}.*switchyard takeover"):
        publisher.publish_all()
    assert redis_client.hgetall(redis_keys.MANIFEST) == before
    assert TableState.objects.get().epoch == 7, "it is not raised each second"


def test_a_write_of_another_installation_is_kept_but_not_published(
    api: Api, llm: str, redis_client: Any
) -> None:
    before = {key: redis_client.hgetall(key) for key in (redis_keys.MANIFEST, redis_keys.fleet_key("llm"))}
    become_another()
    change = api.patch("/fleets/llm/policy", {"slow_start_s": 3}).json()
    assert (change["published"], change["policy"]["slow_start_s"]) == (False, 3)
    assert api.delete("/fleets/llm").status_code == 204
    assert {key: redis_client.hgetall(key) for key in before} == before, "neither written nor removed"


def test_an_emptied_redis_is_bound_again_by_the_installation_that_proxies_follow(
    llm: str, redis_client: Any
) -> None:
    ours = bound(redis_client)
    redis_client.flushall()
    send(redis_client, follower(ours))
    row = TableState.objects.get()
    become_another()
    with pytest.raises(NotOurRedis, match=f"route for another installation, {ours}"):
        publisher.publish_all()
    assert bound(redis_client) == ""
    row.save()
    assert publisher.publish_all() == 2
    assert bound(redis_client) == ours


def test_a_copy_of_the_database_is_noticed_while_the_first_one_lives(llm: str, redis_client: Any) -> None:
    first = installation.identity()
    become_a_copy()
    second = installation.identity()
    assert (second.id, second.instance != first.instance) == (first.id, True)
    with pytest.raises(NotOurRedis, match="one is a copy of the other") as refused:
        hold_as_another_process(second)
    assert refused.value.copy
    assert policies.change("llm", {"slow_start_s": 3}, "tests").published is False
    hold_as_another_process(first)

    # The first one has ended, and says so; or it has not been heard for INSTANCE_TTL_S.
    installation.release(first)
    hold_as_another_process(second)
    with pytest.raises(NotOurRedis, match="one is a copy of the other"):
        hold_as_another_process(first)
    redis_client.hset(
        redis_keys.INSTALLATION, "heard", redis_client.time()[0] - redis_keys.INSTANCE_TTL_S - 5
    )
    hold_as_another_process(first)


def test_a_database_whose_server_was_restarted_goes_on_at_once(llm: str, redis_client: Any) -> None:
    """It is in another place by that; the conductor that held Redis for it is no copy."""
    installation.hold(before := installation.identity())
    TableState.objects.update(place="elsewhere")
    installation._place_checked.clear()
    after = installation.identity()
    assert after.instance != before.instance
    installation.hold(after)
    assert redis_client.hget(redis_keys.INSTALLATION, "instance").decode() == after.instance


def test_a_database_is_found_where_it_was(tmp_path: Path) -> None:
    file = tmp_path / "db.sqlite3"
    file.write_text("")
    (tmp_path / "copy").write_text("")
    place = database_place._of_file(str(file))
    assert place.startswith("sqlite ")
    assert database_place._of_file(str(file)) == place
    assert database_place._of_file(str(tmp_path / "copy")) != place
    assert database_place._of_file("file:memory?mode=memory") == ""
    assert database_place.current() == database_place.current()


def test_tables_of_an_older_version_get_the_id_as_a_later_epoch(llm: str, redis_client: Any) -> None:
    for key in (redis_keys.MANIFEST, redis_keys.fleet_key("llm")):
        redis_client.hdel(key, "installation")
    redis_client.delete(redis_keys.INSTALLATION)
    send(redis_client, report(manifest="1:2"))
    assert publisher.publish_all() == 2
    assert manifest(redis_client).epoch == 2
    assert "an older version wrote it" in Event.objects.get(kind="system").text
    assert publisher.publish_all() == 0


def test_a_follower_of_a_later_epoch_binds_redis_and_no_other_does(llm: str, redis_client: Any) -> None:
    """As a restored backup does (controlplane/backups/restore.py)."""
    ours = bound(redis_client)
    become_another(epoch=1)
    TableState.objects.update(succeeded=[ours])
    with pytest.raises(NotOurRedis):
        publisher.publish_all()
    TableState.objects.update(epoch=2)
    assert publisher.publish_all() == 2
    assert bound(redis_client) == installation.identity().id
    assert manifest(redis_client).succeeded == [ours]


def take_over(capsys: pytest.CaptureFixture[str], *flags: str) -> str:
    capsys.readouterr()
    call_command("takeover", *flags)
    return str(capsys.readouterr().out)


def test_takeover_says_what_goes_and_does_it_on_purpose(
    llm: str, redis_client: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "Nothing to take over" in take_over(capsys, "--yes")
    former, version = bound(redis_client), manifest(redis_client).version
    send(redis_client, follower(former, manifest=f"1:{version}"))
    fleets.delete("llm", "tests")
    fleets.create({"name": "gone", "protocol": "openai"}, "tests")
    other = become_another(epoch=1, manifest_version=1)
    fleets.delete("gone", "tests")
    fleets.create({**LLM, "name": "new"}, "tests")
    with pytest.raises(CommandError, match="say --yes"):
        call_command("takeover")
    assert bound(redis_client) == former
    said = take_over(capsys, "--yes")
    assert f"This database: installation {other}; fleets: new." in said
    assert f"Redis is bound to {former}; fleets: gone." in said
    assert f"Proxy workers that route for {former}: 1." in said
    assert "The other control plane is running: stop it first" in said
    assert "Fleets whose requests are refused afterwards: gone." in said
    found = manifest(redis_client)
    assert (list(found.fleets), found.installation, found.succeeded) == (["new"], other, [former])
    assert found.epoch == 2
    assert decode_snapshot(redis_client.hget(redis_keys.fleet_key("new"), "body")).epoch == 2
    assert "took over Redis and its proxies from" in Event.objects.filter(kind="system").earliest("pk").text
    assert AuditEntry.objects.get(verb="installation.takeover").after == {"succeeded": [former]}


def test_takeover_after_everything_was_lost(
    llm: str, redis_client: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Redis was emptied as well: only proxies know the former installation, and a later table of it."""
    former = bound(redis_client)
    redis_client.flushall()
    send(redis_client, follower(former, "5:40", "llm", "lost"))
    other = become_another()
    with pytest.raises(NotOurRedis):
        publisher.publish_all()
    said = take_over(capsys, "--yes")
    assert f"Proxy workers that route for {former}: 1." in said
    assert "Fleets whose requests are refused afterwards: lost." in said
    found = manifest(redis_client)
    assert (found.installation, found.succeeded) == (other, [former])
    assert Version(found.epoch, found.version) > Version(5, 40)


def test_takeover_from_a_copy(llm: str, redis_client: Any, capsys: pytest.CaptureFixture[str]) -> None:
    first = installation.identity()
    become_a_copy()
    assert "another database with that id (a copy)" in take_over(capsys, "--yes")
    hold_as_another_process(installation.identity())
    with pytest.raises(NotOurRedis, match="one is a copy of the other"):
        hold_as_another_process(first)


def test_the_system_page_says_whose_redis_it_is(api: Api, llm: str, redis_client: Any) -> None:
    ours = bound(redis_client)
    refused = "manifest, version 3:1: it is of installation x, and this proxy routes for y"
    send(redis_client, report(installation=ours, refused_manifest=refused))
    worker = api.get("/system").json()["proxies"][0]
    assert (worker["level"], worker["state"]) == ("bad", "refused")
    assert refused in worker["words"]
    become_another()
    part = next(part for part in api.get("/system").json()["parts"] if part["name"] == "redis")
    assert (part["level"], part["state"]) == ("bad", "foreign")
    assert ours in part["words"]
    assert "switchyard takeover" in part["cure"]


def test_the_system_page_says_that_a_copy_publishes(api: Api, llm: str, redis_client: Any) -> None:
    become_a_copy()
    part = next(part for part in api.get("/system").json()["parts"] if part["name"] == "redis")
    assert (part["level"], part["state"]) == ("bad", "copy")


def run(environment: dict[str, str], *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize(
    "program",
    [
        ("manage.py", "conductor"),
        ("manage.py", "up", "--no-examples"),
        ("-m", "celery", "-A", "controlplane.celery", "worker", "--pool", "solo"),
        ("-m", "celery", "-A", "controlplane.celery", "beat", "--pidfile="),
    ],
    ids=["conductor", "up", "worker", "beat"],
)
def test_a_second_installation_is_refused_at_start(
    llm: str, redis_client: Any, redis_url: str, tmp_path: Path, program: tuple[str, ...]
) -> None:
    environment = {**os.environ, "SWITCHYARD_DATA_DIR": str(tmp_path), "SWITCHYARD_REDIS_URL": redis_url}
    environment["SWITCHYARD_DATABASE_URL"] = f"sqlite://{tmp_path / 'other.sqlite3'}"
    migrated = run(environment, "manage.py", "migrate", "--verbosity", "0")
    assert migrated.returncode == 0, migrated.stderr
    before = redis_client.hgetall(redis_keys.MANIFEST)
    more: list[str] = []
    if "beat" in program:
        more = ["--schedule", str(tmp_path / "beat")]
    elif "up" in program:
        flags = ("--port", "--proxy-port", "--admin-port", "--metrics-port")
        ports = [*free_ports(3), free_run(4)]
        more = [word for pair in zip(flags, map(str, ports), strict=True) for word in pair]
    done = run(environment, *program, *more)
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"This Redis belongs to another installation, {bound(redis_client)}." in done.stderr
    assert "switchyard takeover" in done.stderr
    assert redis_client.hgetall(redis_keys.MANIFEST) == before
