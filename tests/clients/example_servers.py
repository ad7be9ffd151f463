"""The servers of ``examples/`` as processes."""

import http.client
import subprocess
import sys
from contextlib import closing

from tests.ports import free_port
from tests.proxy_process import ROOT, until

START_LIMIT_S = 100.0


class ExampleServer:
    """One replica on a port of its own."""

    def __init__(self, example: str, *arguments: str) -> None:
        """``example``: a folder of ``examples/``."""
        self.name = example
        self.port = free_port()
        command = [sys.executable, "-m", f"examples.{example}.server", "--port", str(self.port), *arguments]
        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen(command, cwd=ROOT, stdout=quiet, stderr=quiet)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def wait_for(self, path: str) -> None:
        """Until a GET there is a 200."""

        def is_ready() -> bool:
            assert self._process.poll() is None, f"{self.name} has ended"
            try:
                with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)) as connection:
                    connection.request("GET", path)
                    return connection.getresponse().status == 200
            except OSError:
                return False

        until(is_ready, f"{self.name} is ready", START_LIMIT_S)

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()
