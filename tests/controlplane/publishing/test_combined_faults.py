"""Faults that come together: what proxies get ends as one database says, whoever else was at it."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from routing.contract import redis_keys, snapshot_chunks
from routing.contract.table import Manifest, decode_manifest
from tests.proxy_process import ROOT

pytestmark = [pytest.mark.any_database, pytest.mark.timeout(300)]

LIVES = """
import os, sys, time
import django
django.setup()
from controlplane.models import Event, Fleet, TableState
from controlplane.publishing import installation, publisher
from controlplane.publishing.installation import NotOurRedis
from controlplane.services import fleets, policies
"""
LARGE = """
replicas = [{"name": f"r{n}", "url": f"http://10.0.{n // 250}.{n % 250 + 1}:80"} for n in range(1200)]
"""
DIES_HALF_WAY = """
evaluate = publisher._evaluate
def half(ours, messages):
    evaluate(ours, messages[:1])
    os._exit(9)
publisher._evaluate = half
installation.hold(installation.identity())  # Redis is emptied, and nothing would be stored at first
"""
"""A process that is killed when the first of several messages is stored."""


class Database:
    """An installation of its own at the same Redis, and programs that run on it."""

    def __init__(self, folder: Path, redis_url: str) -> None:
        folder.mkdir()
        self.file = folder / "db.sqlite3"
        self._environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "controlplane.settings",
            "SWITCHYARD_DATABASE_URL": f"sqlite://{self.file}",
            "SWITCHYARD_DATA_DIR": str(folder),
            "SWITCHYARD_REDIS_URL": redis_url,
        }
        assert self.run("manage.py", "migrate", "--verbosity", "0") == 0

    def run(self, *program: str) -> int:
        return self.start(*program).wait(200)

    def start(self, *program: str) -> "subprocess.Popen[bytes]":
        return subprocess.Popen([sys.executable, *program], cwd=ROOT, env=self._environment)

    def lives(self, program: str) -> int:
        return self.run("-c", LIVES + program)

    def contents(self) -> bytes:
        with closing(sqlite3.connect(self.file)) as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return self.file.read_bytes()

    def put_back(self, contents: bytes) -> None:
        self.file.write_bytes(contents)
        for suffix in ("-wal", "-shm"):
            Path(f"{self.file}{suffix}").unlink(missing_ok=True)


@pytest.fixture
def ours(tmp_path: Path, redis_url: str) -> Database:
    return Database(tmp_path / "ours", redis_url)


def manifest(client: Any) -> Manifest:
    return decode_manifest(client.hget(redis_keys.MANIFEST, "body"))


def test_a_conductor_killed_in_the_midst_of_chunked_tables(ours: Database, redis_client: Any) -> None:
    """It was about to store two fleets of three chunks each, and the manifest."""
    make = "".join(
        f"fleets.create({{'name': '{name}', 'protocol': 'generic', 'replicas': replicas[{part}]}}, 'a')\n"
        for name, part in (("even", "::2"), ("odd", "1::2"))
    )
    assert ours.lives(f"{LARGE}{make}") == 0
    redis_client.flushall()
    assert ours.lives(f"{DIES_HALF_WAY}publisher.publish_all()") == 9
    assert redis_client.hget(redis_keys.MANIFEST, "body") is None, "a fleet is listed once it is complete"
    assert ours.lives("assert publisher.publish_all() == 2; assert publisher.publish_all() == 0") == 0
    assert sorted(manifest(redis_client).fleets) == ["even", "odd"]
    for name in ("even", "odd"):
        stored = snapshot_chunks.decode_fields(redis_client.hgetall(redis_keys.fleet_key(name)))
        assert len(stored.replicas) == 600


def test_a_restored_database_with_two_web_processes_and_two_conductors(
    ours: Database, redis_client: Any
) -> None:
    """That of yesterday is put back, and everybody writes and publishes before anybody has noticed."""
    assert ours.lives("fleets.create({'name': 'llm', 'protocol': 'openai'}, 'a')") == 0
    yesterday = ours.contents()
    later = "".join(f"policies.change('llm', {{'slow_start_s': {second}}}, 'a')\n" for second in range(1, 6))
    assert ours.lives(f"{later}fleets.create({{'name': 'young', 'protocol': 'openai'}}, 'a')") == 0
    before = manifest(redis_client)
    ours.put_back(yesterday)
    web = """
for second in range({first}, {first} + 8):
    policies.change('llm', {{'slow_start_s': second}}, 'a')
"""
    conductor = "for _ in range(10):\n    publisher.compare_again()\n    publisher.publish_all()"
    programs = [web.format(first=100), web.format(first=200), conductor, conductor]
    processes = [ours.start("-c", LIVES + program) for program in programs]
    assert [process.wait(200) for process in processes] == [0] * 4
    assert (
        ours.lives("publisher.publish_all(); publisher.compare_again(); assert publisher.publish_all() == 0")
        == 0
    )
    after = manifest(redis_client)
    assert (list(after.fleets), after.installation) == (["llm"], before.installation)
    assert after.epoch > before.epoch
    stored = snapshot_chunks.decode_fields(redis_client.hgetall(redis_keys.fleet_key("llm")))
    with closing(sqlite3.connect(ours.file)) as database:
        (epoch,) = database.execute("SELECT epoch FROM controlplane_tablestate").fetchone()
        (version,) = database.execute("SELECT table_version FROM controlplane_fleet").fetchone()
        (revisions,) = database.execute("SELECT count(*) FROM controlplane_policyrevision").fetchone()
    assert (stored.epoch, stored.version) == (epoch, version)
    assert revisions == 1 + 16, "each change happened once"


@pytest.mark.long
def test_a_takeover_and_one_back_while_both_go_on_publishing(
    ours: Database, tmp_path: Path, redis_url: str, redis_client: Any
) -> None:
    """Whoever took over last has Redis; the other changes nothing there, whatever it tries."""
    theirs = Database(tmp_path / "theirs", redis_url)
    assert ours.lives("fleets.create({'name': 'ours', 'protocol': 'openai'}, 'a')") == 0
    assert theirs.lives("fleets.create({'name': 'theirs', 'protocol': 'openai'}, 'a')") == 0
    assert list(manifest(redis_client).fleets) == ["ours"]
    stubborn = """
until = time.monotonic() + {seconds}
number = 0
while time.monotonic() < until or number < 5:
    number += 1
    try:
        publisher.publish_all(installation.live_reports())
    except NotOurRedis:
        pass
    policies.change('{name}', {{'slow_start_s': number}}, 'a')
"""
    for taker, name, other in (
        (theirs, "theirs", "ours"),
        (ours, "ours", "theirs"),
        (theirs, "theirs", "ours"),
    ):
        both = [
            ours.start("-c", LIVES + stubborn.format(name="ours", seconds=6)),
            theirs.start("-c", LIVES + stubborn.format(name="theirs", seconds=6)),
        ]
        assert taker.run("manage.py", "takeover", "--yes") == 0
        assert [process.wait(200) for process in both] == [0, 0]
        found = manifest(redis_client)
        assert list(found.fleets) == [name], f"{name} took over, and {other} goes on trying"
        assert redis_client.hget(redis_keys.INSTALLATION, "id").decode() == found.installation
        epoch = found.epoch
    assert epoch < 20, "no race of epochs"
