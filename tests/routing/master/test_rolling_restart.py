"""Workers that take each other's place while requests come without a pause: none is lost."""

import contextlib
import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.proxy_process import Proxy, Replica, fleet_file, until
from tests.routing.master.test_graceful_shutdown import gone, open_stream
from tests.routing.master.traffic import Traffic


@pytest.fixture
def file(tmp_path: Path, replicas: list[Replica]) -> str:
    return str(fleet_file(tmp_path / "fleets.yaml", replicas))


@pytest.fixture
def file_of_one(tmp_path: Path, replicas: list[Replica]) -> str:
    return str(fleet_file(tmp_path / "fleets.yaml", replicas[:1]))


def restarted(proxy: Proxy, old: list[int]) -> list[int]:
    """Wait for the end of a rolling restart; the workers' process ids then."""
    until(lambda: not proxy.status()["rolling_restart"]["under_way"], "the restart is done")
    now = proxy.workers()
    assert len(now) == len(old)
    assert not set(now) & set(old)
    assert gone(old)
    return now


def test_a_rolling_restart_under_load_loses_no_request(file: str, proxy: Callable[..., Proxy]) -> None:
    running = proxy("--fleets", file, "--workers", "2").ready()
    first = running.workers()
    with Traffic(running) as traffic:
        status, said = running.admin("/restart", "POST")
        assert status == 202
        assert json.loads(said)["rolling_restart"]["under_way"]
        status, said = running.admin("/restart", "POST")
        assert (status, "under way" in said) == (409, True)
        restarted(running, first)
        traffic.more()
    assert traffic.failures == []
    metrics = running.admin("/metrics")[1]
    assert "\nswitchyard_replaced_workers_total 2\n" in metrics
    assert "\nswitchyard_rolling_restart 0\n" in metrics
    # What the workers counted that are gone is still in the sums.
    answered = sum(traffic.answered.values())
    until(lambda: _count(running, "switchyard_answered_total") == answered, "nothing is counted twice")
    assert running.status()["rolling_restart"]["last"] == "done"


def _count(proxy: Proxy, name: str) -> int:
    lines = proxy.admin("/metrics")[1].splitlines()
    return sum(int(line.rpartition(" ")[2]) for line in lines if line.startswith(name + "{"))


def test_a_stream_keeps_the_worker_that_was_replaced(
    file_of_one: str, proxy: Callable[..., Proxy], replicas: list[Replica]
) -> None:
    running = proxy("--fleets", file_of_one, "--workers", "1").ready()
    (old,) = running.workers()
    replica = replicas[0]
    with open_stream(running, replica) as stream:
        running.signal(signal.SIGUSR1)
        until(lambda: running.status()["leaving_workers"], "the old one is on its way")
        assert running.status()["leaving_workers"][0]["pid"] == old
        assert running.admin("/readyz")[0] == 200
        assert running.get()[0] == 200
        assert running.workers() != [old]
        replica.release.set()
        assert stream.read() == b"last"
    restarted(running, [old])


@pytest.mark.parametrize("moment", ["while the new one starts", "while the old one finishes"])
def test_a_stop_during_a_rolling_restart(
    file_of_one: str, proxy: Callable[..., Proxy], replicas: list[Replica], moment: str
) -> None:
    running = proxy("--fleets", file_of_one, "--workers", "1", "--min-drain-seconds", "0").ready()
    with open_stream(running, replicas[0]) as stream:
        running.signal(signal.SIGUSR1)
        if moment == "while the new one starts":
            children = Path(f"/proc/{running.process.pid}/task/{running.process.pid}/children")
            until(lambda: len(children.read_text().split()) == 2, "there are two")
        else:
            until(lambda: running.status()["leaving_workers"], "the old one is on its way")
        running.signal()
        until(lambda: "draining" in running.log, "the signal is handled")
        replicas[0].release.set()
        assert stream.read() == b"last"
    # Long before the limit of 30 s.
    assert running.exit_status(15) == 0


def test_a_limit_holds_over_a_worker_and_its_successor(
    tmp_path: Path, proxy: Callable[..., Proxy], replicas: list[Replica]
) -> None:
    """What the old one has in flight counts in what the successor decides."""
    policy = {"strategy": "least_connections", "slow_start_s": 0}
    file = str(fleet_file(tmp_path / "fleets.yaml", replicas, policy=policy))
    running = proxy("--fleets", file, "--workers", "1").ready()
    with contextlib.closing(running.client()) as client:
        client.request("GET", "/stream")
        stream = client.getresponse()
        # The head may be here before the replica's thread comes to say that it streams.
        until(lambda: any(one.streaming.is_set() for one in replicas), "one of them streams")
        busy, other = sorted(replicas, key=lambda one: not one.streaming.is_set())
        running.signal(signal.SIGUSR1)
        until(lambda: running.status()["leaving_workers"], "the old one is on its way")
        assert [running.get() for _ in range(6)] == [(200, other.name)] * 6
        busy.release.set()
        assert stream.read() == b"firstlast"
