"""The disk of the state directory is full: the proxy goes on, and writes its copy when there is room."""

import json
from collections.abc import Callable
from pathlib import Path

from tests.proxy_process import Proxy, Publisher, Replica, snapshot, until
from tests.small_disk import mounted

LIMIT_S = 60.0


def test_a_full_disk_costs_the_copy_only_and_that_for_as_long_as_it_is_full(
    tmp_path: Path, redis_url: str, publisher: Publisher, replicas: list[Replica], proxy: Callable[..., Proxy]
) -> None:
    with mounted(tmp_path / "disk", mebibytes=2) as disk:
        state, log = disk.folder / "state", disk.folder / "access.log"
        publisher.fleet(snapshot(1, replicas[:1]))
        publisher.manifest(1)
        flags = ("--redis", redis_url, "--state-dir", str(state), "--access-log", str(log))
        running = proxy(*flags, "--workers", "1").ready()

        def version() -> int:
            found: int = json.loads((state / "fleet-echo.json").read_text())["version"]
            return found

        until(lambda: (state / "fleet-echo.json").exists() and version() == 1, "there is a copy")
        disk.fill()
        publisher.fleet(snapshot(2, replicas))
        publisher.manifest(2, fleets={"echo": 2})
        until(lambda: {running.get() for _ in range(4)} == {(200, "a"), (200, "b")}, "the new table is used")
        until(lambda: "could not be copied to disk" in running.log, "it says so")
        assert version() == 1, "the copy of before is whole"
        assert running.get()[0] == 200
        disk.free()
        until(lambda: version() == 2, "it is made up for", LIMIT_S)
        until(lambda: "copied to disk again" in running.log, "it says so")
        assert running.log.count("could not be copied to disk") == 1
        running.stop()
