"""As much load as goes: wrk, from the system's packages."""

import re
import subprocess
import sys
from pathlib import Path

from tests.benchmarks.processes import pin


def drive(url: str, script: Path, seconds: float, connections: int, cpu: int | None) -> int:
    """Send for so many seconds, each connection again as soon as it was answered; returns the number of
    answers. Exits when one was an error."""
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds:g}s", "--timeout", "30s", "-s", str(script)]
    said = subprocess.run(
        [*command, url],
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=None if cpu is None else lambda: pin(cpu),
    ).stdout
    if "Non-2xx" in said or "Socket errors" in said:
        sys.exit(f"the proxy at {url} answered with errors:\n{said}")
    matched = re.search(r"(\d+) requests in", said)
    assert matched is not None, said
    return int(matched[1])
