"""One llama.cpp server of random weights in a process of its own: ``PORT FOLDER``.

A sequence takes as long as on a small CPU; one thread computes, so that the process's share of one core is
its speed.
"""

import signal
import sys
from pathlib import Path

import xllamacpp

from examples.tiny_llm.replicas import Replica, Shape
from examples.tiny_llm.server import ensure_model, parameters
from tests.benchmarks.llama.cpu_shares import CpuShare
from tests.servers.running import ModelServer

SHAPE = Shape(width=192, layers=6)
SLOTS = 8
SLOT_TOKENS = 512
"""Prompt and response of one sequence."""
STEP_TOKENS = 2048
"""llama.cpp's ``n_batch``: prompts are read in pieces of so many tokens."""


class LlamaServer(ModelServer):
    """Started at full speed, and then held to a share of a core."""

    def __init__(self, name: str, share: float, folder: Path) -> None:
        super().__init__(name, folder)
        self.share = share
        self._held: CpuShare | None = None

    def command(self) -> list[str]:
        return [sys.executable, "-m", "tests.benchmarks.llama.server", str(self.port), str(self.folder)]

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def start_held(self) -> None:
        """Raises NoControlGroups."""
        self.start()
        self.until_it_says("/health", "200")
        self._held = CpuShare(self.name, self.share)
        self._held.hold(self.pid)

    def end(self) -> None:
        """Of whatever was started."""
        if self.process is not None:
            self.stop()
        if self._held is not None:
            self._held.remove()


def main() -> None:
    port, folder = int(sys.argv[1]), Path(sys.argv[2])
    model = ensure_model(folder, SHAPE)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    server = xllamacpp.Server(parameters(Replica(SHAPE, 1, SLOTS, SLOT_TOKENS * SLOTS), model, port))
    print(f"ready at {server.listening_address}", flush=True)
    signal.pause()


if __name__ == "__main__":
    main()
