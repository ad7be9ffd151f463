"""Prompts that a worker of a proxy has sent: known to the others, to their successors, to another master."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.proxy_process import Proxy, Replica, fleet_file, until
from tests.routing.conversations import ANSWER, CONVERSATIONS, take_turn
from tests.routing.master.upgrade.test_upgrade import successor

POLICY = {"strategy": "prefix_affinity", "parameters": {"block_bytes": 64}, "slow_start_s": 0}


@pytest.fixture
def replicas(replicas: list[Replica]) -> list[Replica]:
    """They answer in their protocol: one that does not gets no more than its fair share."""
    for replica in replicas:
        replica.body = ANSWER
    return replicas


def began(running: Proxy) -> int:
    """Prompts of which nothing was known, at all workers that ever were."""
    words = 'switchyard_affinity_new_total{fleet="echo"} '
    lines = running.admin("/metrics")[1].splitlines()
    return int(next((line for line in lines if line.startswith(words)), words + "0").removeprefix(words))


def test_what_one_has_sent_all_know_and_whoever_comes_after_them(
    proxy: Callable[..., Proxy], replicas: list[Replica], tmp_path: Path
) -> None:
    file = fleet_file(tmp_path / "fleets.yaml", replicas, protocol="openai", policy=POLICY)
    running = proxy("--fleets", str(file), "--workers", "2", "--min-drain-seconds", "0").ready()
    where = take_turn(running, 1)
    assert set(where) == {"a", "b"}
    assert take_turn(running, 2) == where
    until(lambda: began(running) == CONVERSATIONS, "each has begun once, whichever worker came to have it")

    workers = running.workers()
    for victim in workers:
        os.kill(victim, signal.SIGKILL)
    until(lambda: len(now := running.workers()) == 2 and not set(now) & set(workers), "others serve")
    assert take_turn(running, 3) == where

    before = running.workers()
    assert running.admin("/upgrade", "POST")[0] == 202
    successor(running, before)
    assert take_turn(running, 4) == where
    assert began(running) == 0, "at the new master"


def test_a_master_whose_predecessor_gives_no_such_memory_begins_with_an_empty_one(
    proxy: Callable[..., Proxy], replicas: list[Replica], tmp_path: Path
) -> None:
    """As one of an earlier version, or of another form of memory."""
    file = fleet_file(tmp_path / "fleets.yaml", replicas, protocol="openai", policy=POLICY)
    for named in ("nonsense", "4095"):
        environment = {"SWITCHYARD_INHERITED_PREFIXES": named}
        running = proxy("--fleets", str(file), "--workers", "1", environment=environment).ready()
        assert take_turn(running, 2) == take_turn(running, 3)
        running.stop()
