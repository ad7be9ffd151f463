"""What one worker of a proxy has learned of a fleet, in a worker that has served nothing of it."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.proxy_process import Proxy, Replica, fleet_file, until


def test_a_worker_that_has_served_nothing_knows_what_the_other_does(
    proxy: Callable[..., Proxy], replicas: list[Replica], tmp_path: Path
) -> None:
    file = fleet_file(tmp_path / "fleets.yaml", replicas, policy={"slow_start_s": 0})
    running = proxy("--fleets", str(file), "--workers", "2").ready()

    def usual() -> list[float]:
        rows: list[dict[str, Any]] = running.status()["fleets"]["echo"]["learned"]
        return [row["usual_s"] for row in rows]

    # One connection is one worker's; the other one knows by what it is shown.
    client = running.client()
    for _ in range(5):
        client.request("POST", "/slow", body=b"x" * 100)
        client.getresponse().read()

    def known() -> bool:
        seen = usual()
        return len(seen) == 2 and min(seen) > 0.05

    # A worker looks when a request comes or its report is due.
    until(known, "both know")

    def scales() -> list[dict[str, float] | None]:
        return [row["learned"] for row in running.status()["fleets"]["echo"]["replicas"]]

    until(lambda: any(scales()), "the status page says how fast a replica is")
    told = next(scale for scale in scales() if scale)
    assert told.keys() == {"times_usual", "error", "request_s", "requests"}
    assert told["error"] >= 1.0
    assert told["request_s"] > 0.01
    victim, _ = running.workers()
    os.kill(victim, signal.SIGKILL)
    until(lambda: len(running.workers()) == 2 and victim not in running.workers(), "a successor")
    until(known, "it knows as well")
    client.close()
