"""The example that shows traces: what a real proxy exports, as lines."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ports import free_port
from tests.proxy_process import ROOT, Proxy, Replica, fleet_file, until


@pytest.fixture
def shown(tmp_path: Path) -> Iterator[Path]:
    """What it prints; its port is in the first line."""
    output = tmp_path / "shown"
    with output.open("wb") as to:
        process = subprocess.Popen(
            [sys.executable, "-m", "examples.traces", "--listen", f"127.0.0.1:{free_port()}"],
            stdout=to,
            stderr=to,
            cwd=ROOT,
        )
    yield output
    process.kill()
    process.wait()


def test_a_request_is_shown_with_its_attempt(tmp_path: Path, shown: Path) -> None:
    found = until(lambda: re.search(r"listening on (\S+)", shown.read_text()), "it listens")
    replica = Replica("a")
    file = fleet_file(tmp_path / "fleets.yaml", [replica])
    variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{found[1]}"}
    proxy = Proxy(tmp_path, "--fleets", str(file), "--workers", "1", environment=variables)
    try:
        proxy.ready()
        assert proxy.get("/some/where")[0] == 200
        until(lambda: "switchyard.replica=a" in shown.read_text(), "it is shown")
        lines = shown.read_text().splitlines()[1:]
        assert lines[0] == ""
        assert re.fullmatch(r"trace [0-9a-f]{32}", lines[1])
        assert re.match(r"  GET: at 0.0 ms, [0-9.]+ ms  .*url.path=/some/where", lines[2])
        assert re.match(r"    GET: at [0-9.]+ ms, [0-9.]+ ms  .*switchyard.replica=a", lines[3])
    finally:
        proxy.stop()
        replica.stop()
