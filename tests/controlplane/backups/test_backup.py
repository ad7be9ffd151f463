"""A backup holds all that is kept, as of one moment; restored, it is what proxies route by."""

import gzip
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.core.management.base import CommandError
from django.core.management.sql import emit_post_migrate_signal
from django.db import connection

from controlplane.backups import backup_file, tables
from controlplane.models import ClientKey, Event, Fleet, PolicyRevision, Replica, TableState
from controlplane.publishing import installation, publisher
from controlplane.services import client_keys, fleets, policies, replicas, tokens
from routing.contract import redis_keys
from routing.contract.table import Version
from tests.controlplane.conftest import LLM
from tests.proxy_process import ROOT, Proxy, until

LEFT_OUT = {"controlplane.tablestate", "controlplane.event"}
"""What a restore adds to: the epoch, and a line in the timeline."""


def contents() -> dict[str, list[Any]]:
    """Every kept row of every table, but those of LEFT_OUT."""
    return {
        tables.label(model): list(model._base_manager.order_by("pk").values_list(*tables.field_names(model)))
        for model in tables.models_at(tables.applied_migrations())
        if tables.label(model) not in LEFT_OUT
    }


@pytest.fixture
def backup(tmp_path: Path, llm: str) -> Path:
    """Of a fleet with two revisions, a user and a token."""
    emit_post_migrate_signal(verbosity=0, interactive=False, db="default")  # see tests/conftest.py
    policies.change("llm", {"strategy": "round_robin", "parameters": {}}, "tests")
    anna = User.objects.create_user("anna", password="a long enough password", is_staff=True)
    tokens.create(anna, "laptop", "tests")
    client_keys.create({"name": "batch", "fleets": ["llm"], "requests_per_minute": 60}, "tests")
    file = tmp_path / "switchyard.backup"
    call_command("backup", file)
    return file


def restore(file: Path, *flags: str, capture: Any) -> str:
    capture.readouterr()
    call_command("restore", file, *flags)
    return str(capture.readouterr().out)


def test_what_was_there_is_there_again_row_by_row(backup: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents()
    events = Event.objects.count()
    fleets.delete("llm", "tests")
    fleets.create({"name": "other", "protocol": "generic"}, "tests")
    User.objects.create_user("mallory")
    said = restore(backup, "--replace", capture=capsys)
    assert contents() == before
    assert {name for name, rows in before.items() if rows} >= {
        *("auth.user", "controlplane.fleet", "controlplane.replica", "controlplane.policyrevision"),
        *("controlplane.apitoken", "controlplane.auditentry", "controlplane.replicahealth"),
        *("controlplane.clientkey", "controlplane.clientkey_fleets"),
    }
    assert ClientKey.objects.get().requests_per_minute == 60
    assert Event.objects.count() == events + 1
    assert "Restored from the backup of" in Event.objects.latest("pk").text
    assert "as epoch 2." in said
    assert backup.stat().st_mode & 0o777 == 0o600


def test_new_rows_get_new_numbers_after_a_restore(backup: Path, capsys: pytest.CaptureFixture[str]) -> None:
    restore(backup, "--replace", capture=capsys)
    known = set(Replica.objects.values_list("pk", flat=True))
    fleets.create({**LLM, "name": "second", "aliases": []}, "tests")
    assert len(set(Replica.objects.values_list("pk", flat=True)) - known) == 2


@pytest.fixture
def proxy(tmp_path: Path, redis_url: str) -> Iterator[Proxy]:
    proxy = Proxy(tmp_path, "--redis", redis_url, "--workers", "1")
    yield proxy
    proxy.stop()


def test_a_running_proxy_takes_the_restored_table_though_it_knew_a_later_one(
    backup: Path, proxy: Proxy, capsys: pytest.CaptureFixture[str]
) -> None:
    for weight in (2.0, 3.0, 4.0, 5.0):
        replicas.update("llm", "a", {"weight": weight}, "tests")
    replicas.register("llm", {"name": "late", "url": "http://127.0.0.1:9103"}, "tests")
    fleets.create({"name": "late", "protocol": "generic"}, "tests")
    publisher.publish_all()
    proxy.ready()
    until(lambda: set(proxy.status()["fleets"]) == {"llm", "late"}, "the proxy knows both")
    assert set(proxy.replicas("llm")) == {"a", "b", "late"}
    restore(backup, "--replace", capture=capsys)
    publisher.publish_all()  # as the conductor does each second
    until(lambda: set(proxy.status()["fleets"]) == {"llm"}, "the later fleet is gone")
    until(lambda: set(proxy.replicas("llm")) == {"a", "b"}, "and the later replica")
    state = TableState.objects.get()
    assert state.epoch == 2
    policies.change("llm", {"slow_start_s": 7}, "tests")
    version = Version(state.epoch, Fleet.objects.get().table_version)
    assert publisher.acknowledged("llm", version, wait_s=10).applied == 1, "changes go on from there"


def test_a_restore_in_place_stays_the_installation_and_database_that_it_was(
    backup: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = installation.identity()
    restore(backup, "--replace", capture=capsys)
    after = installation.identity()
    assert (after.id, after.instance, after.succeeded) == (before.id, before.instance, ())
    assert publisher.publish_all() == 2


def test_a_database_without_fleets_becomes_the_installation_of_the_backup_and_follows_its_own(
    backup: Path, redis_client: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """As after a loss: everything was started anew, and published nothing, before the backup came."""
    before = installation.identity()
    Fleet.objects.all().delete()
    TableState.objects.update(installation="young", instance="young")
    redis_client.flushall()
    publisher.publish_all()
    restore(backup, "--replace", capture=capsys)
    after = installation.identity()
    assert (after.id, after.succeeded) == (before.id, ("young",))
    assert after.instance not in (before.instance, "young")
    assert publisher.publish_all() == 2
    assert redis_client.hget(redis_keys.INSTALLATION, "id").decode() == before.id


def test_a_database_with_fleets_stays_the_installation_that_it_was(
    backup: Path, redis_client: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """As staging that is filled from production."""
    TableState.objects.update(installation="staging", instance="staging")
    redis_client.flushall()
    publisher.publish_all()
    restore(backup, "--replace", capture=capsys)
    after = installation.identity()
    assert (after.id, after.instance) == ("staging", "staging")
    assert publisher.publish_all() == 2


def test_the_epoch_is_beyond_what_redis_and_the_database_have_seen(
    backup: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    TableState.objects.update(epoch=7)
    publisher.publish_all()
    TableState.objects.update(epoch=5)
    assert "as epoch 8." in restore(backup, "--replace", capture=capsys)


def test_reading_is_of_one_moment_and_nobody_waits_for_it(llm: str) -> None:
    def change(done: list[Any]) -> None:
        try:
            done.append(policies.change("llm", {"slow_start_s": 9}, "tests").fleet.revision)
        finally:
            connection.close()

    done: list[Any] = []
    with tables.one_moment():
        assert PolicyRevision.objects.count() == 1
        writer = threading.Thread(target=change, args=(done,))
        writer.start()
        writer.join(10)
        assert done == [2], "the write went through meanwhile"
        assert PolicyRevision.objects.count() == 1
        assert Fleet.objects.get().revision == 1
    assert PolicyRevision.objects.count() == 2


def refused(file: Path, *flags: str) -> str:
    before = contents()
    with pytest.raises(CommandError) as caught:
        call_command("restore", file, *flags)
    assert contents() == before, "nothing was written"
    return str(caught.value)


def test_a_database_that_holds_something_is_not_overwritten_by_accident(backup: Path) -> None:
    said = refused(backup)
    assert "The database is not empty (" in said
    assert "1 in controlplane.fleet" in said
    assert "--replace empties it first" in said


def test_a_backup_without_what_serves_now_is_confirmed(
    tmp_path: Path, backup: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An old backup, or that of another installation, over one that serves."""
    other = tmp_path / "other.backup"
    fleets.delete("llm", "tests")
    call_command("backup", other)
    restore(backup, "--replace", capture=capsys)
    before = contents()
    said = refused(other, "--replace")
    assert "other.backup does not hold most of what serves now. 2 of 2 replicas that take requests" in said
    assert "llm/a, llm/b. Nothing that serves now is left of fleet llm. Nothing was changed." in said
    assert said.endswith("If that is meant: --confirm")
    assert contents() == before
    restore(other, "--replace", "--confirm", capture=capsys)
    assert not Fleet.objects.exists()


@pytest.mark.parametrize(("answer", "left"), [("y", False), ("", True)])
def test_at_a_terminal_it_asks(
    tmp_path: Path,
    backup: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    left: bool,
) -> None:
    other = tmp_path / "other.backup"
    fleets.delete("llm", "tests")
    call_command("backup", other)
    restore(backup, "--replace", capture=capsys)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda question: answer)
    if left:
        assert "Nothing was changed" in refused(other, "--replace")
    else:
        assert "2 of 2 replicas" in restore(other, "--replace", capture=capsys)
    assert Fleet.objects.exists() is left


def rewritten(file: Path, change: Callable[[list[str]], list[str]]) -> Path:
    with gzip.open(file, "rt") as stream:
        lines = change(stream.readlines())
    with gzip.open(file, "wt") as stream:
        stream.writelines(lines)
    return file


def with_head(lines: list[str], **fields: Any) -> list[str]:
    return [json.dumps({**json.loads(lines[0]), **fields}) + "\n", *lines[1:]]


def test_a_check_reads_all_of_it_and_writes_nothing(backup: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents()
    said = restore(backup, "--check", capture=capsys)
    assert f"{backup} is whole: " in said
    assert contents() == before
    rewritten(backup, lambda lines: lines[:-1])
    assert "is truncated" in refused(backup, "--check")


def test_a_newer_schema_is_refused_with_words(backup: Path) -> None:
    def newer(lines: list[str]) -> list[str]:
        migrations = json.loads(lines[0])["migrations"]
        return with_head(lines, migrations=[*migrations, ["controlplane", "9999_from_the_future"]])

    assert refused(rewritten(backup, newer), "--replace") == (
        f"{backup} is of a newer schema than this Switchyard knows (controlplane.9999_from_the_future): "
        "upgrade, then restore."
    )


def test_a_newer_format_is_refused_with_words(backup: Path) -> None:
    file = rewritten(backup, lambda lines: with_head(lines, switchyard_backup=2))
    assert "was made by a newer Switchyard" in refused(file, "--replace")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda lines: lines[:-1], "is truncated or was changed"),
        (lambda lines: [*lines[:5], *lines[6:]], "is truncated or was changed"),
        (lambda lines: ["[]\n"], "is not a backup"),
        (lambda lines: ["{]\n"], "is damaged or is no backup"),
    ],
)
def test_a_damaged_file_is_refused_before_anything_is_written(
    backup: Path, change: Callable[[list[str]], list[str]], said: str
) -> None:
    assert said in refused(rewritten(backup, change), "--replace")


def test_a_file_cut_in_the_middle_and_one_that_is_none(backup: Path, tmp_path: Path) -> None:
    backup.write_bytes(backup.read_bytes()[:-40])
    assert "is damaged or is no backup" in refused(backup, "--replace")
    backup.write_text("fleets: []")
    assert "is damaged or is no backup" in refused(backup, "--replace")
    assert refused(tmp_path / "missing") == f"There is no file {tmp_path / 'missing'}."


def test_rows_that_break_a_rule_leave_everything_as_it_was(backup: Path) -> None:
    """A name twice: the database itself refuses, and the whole transaction goes back."""

    def doubled(lines: list[str]) -> list[str]:
        at = next(index for index, line in enumerate(lines) if '"controlplane.fleet"' in line) + 1
        second = json.loads(lines[at])
        second[0] += 1000
        total = json.loads(lines[-1])["rows"] + 1
        return [*lines[: at + 1], json.dumps(second) + "\n", *lines[at + 1 : -1], f'{{"rows": {total}}}\n']

    assert "cannot be loaded" in refused(rewritten(backup, doubled), "--replace")


def test_another_secret_key_is_told(backup: Path, settings: Any, capsys: pytest.CaptureFixture[str]) -> None:
    settings.SECRET_KEY = "another key of fifty random characters 0123456789"
    told = restore(backup, "--replace", capture=capsys)
    assert "made under another secret key: its API tokens are not known here" in told
    assert "Client keys and passwords work." in told


def manage(database_url: str, data: Path, *arguments: str) -> str:
    """A command in a process and on a database of its own."""
    environment = {**os.environ, "SWITCHYARD_DATABASE_URL": database_url, "SWITCHYARD_DATA_DIR": str(data)}
    done = subprocess.run(
        [sys.executable, "manage.py", *arguments], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.long
def test_a_backup_goes_into_an_empty_database_of_either_kind_and_back(
    backup: Path, tmp_path: Path, empty_database_url: Callable[[], str]
) -> None:
    """On PostgreSQL: its backup into SQLite, and that one's into an empty PostgreSQL."""
    sqlite = f"sqlite://{tmp_path / 'other.sqlite3'}"
    assert "Restored" in manage(sqlite, tmp_path, "restore", str(backup))
    again = tmp_path / "again.backup"
    manage(sqlite, tmp_path, "backup", str(again))
    last = empty_database_url()
    said = manage(last, tmp_path, "restore", str(again))
    assert "as epoch" in said
    dumped = manage(last, tmp_path, "dump")
    assert dumped == manage(sqlite, tmp_path, "dump")
    assert "llm" in dumped


def test_trying_a_backup_out_in_another_database_leaves_live_traffic_alone(
    backup: Path, tmp_path: Path, empty_database_url: Callable[[], str], redis_client: Any
) -> None:
    fleets.create({"name": "young", "protocol": "generic"}, "tests")

    def in_redis() -> dict[bytes, Any]:
        keys = [redis_keys.MANIFEST.encode(), *redis_client.keys(redis_keys.fleet_key("*"))]
        return {key: redis_client.hgetall(key) for key in keys}

    before = in_redis()
    assert redis_keys.fleet_key("young").encode() in before
    other = empty_database_url()
    assert "as epoch 2." in manage(other, tmp_path, "restore", str(backup))
    assert in_redis() == before
    assert "young" not in manage(other, tmp_path, "dump")


@pytest.mark.long
def test_an_older_schema_is_restored_as_it_was_and_then_migrated(
    tmp_path: Path, empty_database_url: Callable[[], str], redis_url: str
) -> None:
    old, new = empty_database_url(), empty_database_url()
    file = tmp_path / "old.backup"
    manage(old, tmp_path, "migrate", "--verbosity=0", "controlplane", "0001")
    manage(old, tmp_path, "backup", str(file))
    with gzip.open(file, "rt") as stream:
        migrations = json.loads(stream.readline())["migrations"]
    assert [name for app, name in migrations if app == "controlplane"] == ["0001_initial"]
    fleet = next(each for each in tables.models_at(map(tuple, migrations)) if each.__name__ == "Fleet")
    columns = {"name": "early", "protocol": "openai", "aliases": ["then"]}
    values = [getattr(fleet(pk=3, **columns), name) for name in tables.field_names(fleet)]
    values = [
        "2026-01-01T00:00:00+00:00" if name.endswith("_at") else value
        for name, value in zip(tables.field_names(fleet), values, strict=True)
    ]

    def with_fleet(lines: list[str]) -> list[str]:
        at = next(index for index, line in enumerate(lines) if '"controlplane.fleet"' in line)
        total = json.loads(lines[-1])["rows"] + 1
        return [*lines[: at + 1], json.dumps(values) + "\n", *lines[at + 1 : -1], f'{{"rows": {total}}}\n']

    rewritten(file, with_fleet)
    assert "Restored" in manage(new, tmp_path, "restore", str(file))
    assert "name: early" in manage(new, tmp_path, "dump")


def compressed(file: Path, text: str) -> Path:
    file.write_bytes(gzip.compress(text.encode()))
    return file


@pytest.mark.timeout(60)
def test_what_is_no_backup_is_refused_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backup_file, "MAX_LINE", 1 << 20)
    os.mkfifo(tmp_path / "pipe")
    nested = "[" * 100_000 + "]" * 100_000
    regular = "and only regular files are read: save what it holds as a file"
    for file, words in (
        (tmp_path / "pipe", f"is a pipe, {regular}"),
        (Path("/dev/zero"), f"is a device, {regular}"),
        (
            compressed(tmp_path / "long", "x" * (2 << 20)),
            "is no backup: one of its lines has more than 1 MiB",
        ),
        (compressed(tmp_path / "nested", nested), "is no backup: a line of it is nested too deeply"),
        (compressed(tmp_path / "head", '{"switchyard_backup": 1}'), "is not a backup: its head is not whole"),
    ):
        with pytest.raises(CommandError) as caught:
            call_command("restore", file, "--check")
        assert str(caught.value) == f"{file} {words}."
