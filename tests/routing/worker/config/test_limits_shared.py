"""Several proxies on one Redis share limits out, softly."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from routing.contract import redis_keys
from tests.proxy_process import Proxy, Publisher, Replica, snapshot, until


def test_limits_are_shared_out_between_the_proxies_that_take_requests(
    proxy: Callable[..., Proxy],
    publisher: Publisher,
    replicas: list[Replica],
    redis_url: str,
    redis_server: Any,
    tmp_path: Path,
) -> None:
    def start(*flags: str) -> Proxy:
        return proxy("--redis", redis_url, "--workers", "1", "--name", "edge", *flags)

    def shared_by(running: Proxy) -> int:
        [row] = running.status()["workers"]
        return int(row.get("limits_shared_by", 0))

    def proxies() -> list[str]:
        return sorted(name.decode() for name in publisher.client.zrange(redis_keys.PROXIES, 0, -1))

    publisher.fleet(snapshot(1, replicas))
    publisher.manifest(1)
    # One that died a while ago.
    publisher.client.zadd(redis_keys.PROXIES, {"edge/0": publisher.client.time()[0] - 10})
    first, second = start(), start("--min-drain-seconds", "60", "--drain-seconds", "60")
    until(lambda: shared_by(first) == shared_by(second) == 2, "both know of each other")
    assert "\nswitchyard_limits_shared_by 2\n" in first.admin("/metrics")[1]
    places = sorted([f"edge/{first.process.pid}", f"edge/{second.process.pid}"])
    assert proxies() == places
    number = places.index(f"edge/{first.process.pid}") + 1
    assert f"between 2 proxies, of which this is number {number}" in first.log

    # Without Redis the number stays, for a worker's successor too.
    redis_server.stop()
    [worker] = first.workers()
    os.kill(worker, signal.SIGKILL)
    until(lambda: first.workers() not in ([], [worker]), "a successor")
    until(lambda: shared_by(first), "its report")
    assert shared_by(first) == 2
    redis_server.start()

    # One that drains finishes with what it had, and the other takes the whole.
    until(lambda: proxies() == places, "both report again")
    second.signal()
    until(lambda: proxies() == [f"edge/{first.process.pid}"], "it is no longer counted")
    until(lambda: shared_by(first) == 1, "the other takes the whole")
    assert second.status()["draining"]
    assert shared_by(second) == 2
    assert "between 1 proxies" not in second.log
    assert [row["restarts"] for row in second.status()["workers"]] == [0]
