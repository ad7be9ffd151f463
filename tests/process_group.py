"""A process with a group of its own, for tests that kill it with everything it has started."""

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from tests.proxy_process import ROOT


@contextmanager
def process_group(
    command: Sequence[str], environment: Mapping[str, str] | None = None
) -> Iterator["subprocess.Popen[bytes]"]:
    """Runs in the project's folder; is gone, with its group, when the block ends.

    ``environment``: ``None`` is our own.
    """
    process = subprocess.Popen(command, cwd=ROOT, env=environment, start_new_session=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
