"""llama.cpp's own HTTP server around random weights: ``PORT FOLDER VOCABULARY``.

A larger vocabulary takes llama.cpp longer to load. SIGTERM ends the process at once.
"""

import signal
import sys
from pathlib import Path

import xllamacpp

from examples.tiny_llm.replicas import Replica, Shape
from examples.tiny_llm.server import ensure_model, parameters

SLOTS = 4


def main() -> None:
    port, folder, vocabulary = int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    shape = Shape(width=64, layers=2, vocabulary=vocabulary)
    model = ensure_model(folder, shape)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    server = xllamacpp.Server(parameters(Replica(shape, 1, SLOTS, 2048 * SLOTS), model, port))
    print(f"ready at {server.listening_address}", flush=True)
    signal.pause()


if __name__ == "__main__":
    main()
