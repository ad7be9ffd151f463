"""Whoever writes ends between commit and publish: what proxies get ends as what the database says."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from routing.contract import redis_keys
from routing.contract.table import Manifest, Version, decode_manifest, decode_snapshot
from tests.proxy_process import ROOT

DIES = """
import os, sys
import django
django.setup()
from controlplane.publishing import publisher
publisher.publish = lambda *arguments, **options: os._exit(9)
from controlplane.services import fleets, policies, replicas
"""
"""A process that is killed at the moment in which it would publish what it has committed."""

LIVES = """
import django
django.setup()
from controlplane.publishing import publisher
from controlplane.services import fleets, policies, replicas
from routing.contract.telemetry import WorkerReport
"""


@pytest.fixture
def run(tmp_path: Path, redis_url: str) -> Any:
    """Runs a program on a database of its own; its exit status."""
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "controlplane.settings",
        "SWITCHYARD_DATABASE_URL": f"sqlite://{tmp_path / 'crashes.sqlite3'}",
        "SWITCHYARD_DATA_DIR": str(tmp_path),
        "SWITCHYARD_REDIS_URL": redis_url,
    }

    def run(*program: str) -> int:
        command = [sys.executable, *program]
        return subprocess.run(command, cwd=ROOT, env=environment, timeout=120).returncode

    assert run("manage.py", "migrate", "--verbosity", "0") == 0
    return run


def manifest(client: Any) -> Manifest:
    return decode_manifest(client.hget(redis_keys.MANIFEST, "body"))


@pytest.mark.parametrize("redis_too", [False, True], ids=["Redis as it was", "Redis emptied as well"])
def test_a_crash_between_commit_and_publish_loses_nothing(
    run: Any, redis_client: Any, redis_too: bool
) -> None:
    llm = '{"name": "llm", "protocol": "openai", "replicas": [{"name": "a", "url": "http://10.0.0.1:80"}]}'
    assert (
        run("-c", f"{LIVES}fleets.create({llm}, 'a'); fleets.create({llm.replace('llm', 'gone')}, 'a')") == 0
    )
    before = manifest(redis_client)
    for change in (
        "fleets.delete('gone', 'a')",
        "policies.change('llm', {'slow_start_s': 9}, 'a')",
        "replicas.register('llm', {'name': 'b', 'url': 'http://10.0.0.2:80'}, 'a')",
        "fleets.create({'name': 'new', 'protocol': 'openai'}, 'a')",
    ):
        assert run("-c", DIES + change) == 9, change
    assert manifest(redis_client) == before, "nothing of it was published"
    if redis_too:
        redis_client.flushall()
    assert run("-c", f"{LIVES}assert publisher.publish_all() == 3; assert publisher.publish_all() == 0") == 0
    after = manifest(redis_client)
    assert (sorted(after.fleets), after.epoch, after.installation) == (["llm", "new"], 1, before.installation)
    assert Version(after.epoch, after.version) > Version(before.epoch, before.version)
    snapshot = decode_snapshot(redis_client.hget(redis_keys.fleet_key("llm"), "body"))
    assert ([replica.name for replica in snapshot.replicas], snapshot.policy.slow_start_s) == (["a", "b"], 9)
    assert not redis_client.exists(redis_keys.fleet_key("gone"))


@pytest.mark.parametrize("redis_too", [False, True], ids=["Redis as it was", "Redis emptied as well"])
def test_the_file_of_yesterday_is_the_truth_again(
    run: Any, redis_client: Any, tmp_path: Path, redis_too: bool
) -> None:
    """The database's files put back, without our restore: versions go forward all the same."""
    file = tmp_path / "crashes.sqlite3"
    assert run("-c", LIVES + "fleets.create({'name': 'llm', 'protocol': 'openai'}, 'a')") == 0
    with closing(sqlite3.connect(file)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    yesterday = file.read_bytes()
    changes = "".join(f"policies.change('llm', {{'slow_start_s': {second}}}, 'a')\n" for second in (1, 2, 3))
    assert run("-c", f"{LIVES}{changes}fleets.create({{'name': 'young', 'protocol': 'openai'}}, 'a')") == 0
    before = manifest(redis_client)
    assert sorted(before.fleets) == ["llm", "young"]
    file.write_bytes(yesterday)
    for suffix in ("-wal", "-shm"):
        Path(f"{file}{suffix}").unlink(missing_ok=True)
    reports = "[]"
    if redis_too:
        redis_client.flushall()
        reports = (
            "[WorkerReport(worker='w', incarnation=1, sequence=1, "
            f"manifest='{before.epoch}:{before.version}', installation='{before.installation}')]"
        )
    assert run("-c", f"{LIVES}assert publisher.publish_all({reports}) == 2") == 0
    after = manifest(redis_client)
    assert (list(after.fleets), after.installation) == (["llm"], before.installation)
    assert (before.epoch, after.epoch) == (1, 2)
    assert not redis_client.exists(redis_keys.fleet_key("young"))
    snapshot = decode_snapshot(redis_client.hget(redis_keys.fleet_key("llm"), "body"))
    assert (snapshot.epoch, snapshot.policy.slow_start_s) == (2, 30)
