"""SIGHUP to a proxy that has no certificate to read again."""

import signal
from collections.abc import Callable
from pathlib import Path

from tests.proxy_process import Proxy, Replica, fleet_file, until


def test_it_goes_on_and_says_so(tmp_path: Path, replicas: list[Replica], proxy: Callable[..., Proxy]) -> None:
    file = fleet_file(tmp_path / "fleets.yaml", replicas[:1])
    running = proxy("--fleets", str(file), "--workers", "1").ready()
    before = running.workers()
    running.signal(signal.SIGHUP)
    until(lambda: "SIGHUP: no certificate is served" in running.log, "it is told")
    assert running.process.poll() is None
    assert running.workers() == before
