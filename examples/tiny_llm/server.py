"""Runs one replica of ``tiny-llm``: llama.cpp's own HTTP server through xllamacpp, until a signal.

    python -m examples.tiny_llm.server --replica quick --port 9101 --models var/models

The file of random weights is made first where it is missing. SIGTERM and SIGINT end the process at
once, as they would end ``llama-server``.
"""

import argparse
import os
import signal
import time
from pathlib import Path

import xllamacpp

from examples.output import say
from examples.tiny_llm.replicas import REPLICAS, Replica, Shape

SERVED_MODEL = "tiny-llm"


def main() -> None:
    parser = argparse.ArgumentParser(description="One llama.cpp server with random weights.")
    parser.add_argument("--replica", choices=sorted(REPLICAS), required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--models", type=Path, required=True, help="folder for the model files")
    parser.add_argument("--embeddings", action="store_true", help="serve /v1/embeddings as well")
    options = parser.parse_args()
    replica = REPLICAS[options.replica]
    model = ensure_model(options.models, replica.shape)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    started = time.monotonic()
    settings = parameters(replica, model, options.port)
    if options.embeddings:
        settings.embedding = True
        settings.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    server = xllamacpp.Server(settings)
    say(f"{options.replica} is ready at {server.listening_address} after {time.monotonic() - started:.1f} s")
    signal.pause()


def ensure_model(folder: Path, shape: Shape) -> Path:
    """Path of the model file in ``folder``, written first where it is missing; never half written."""
    path = folder / f"{SERVED_MODEL}-w{shape.width}-l{shape.layers}-v{shape.vocabulary}.gguf"
    if not path.exists():
        from examples.tiny_llm.model_file import write_model  # numpy and gguf only where they are needed

        folder.mkdir(parents=True, exist_ok=True)
        unfinished = folder / f"{path.name}.{os.getpid()}"
        write_model(unfinished, SERVED_MODEL, shape)
        unfinished.replace(path)
    return path


def parameters(replica: Replica, model: Path, port: int) -> "xllamacpp.CommonParams":
    """llama-server's settings; threads sleep while idle (``poll = 0``) so that a demo costs no idle CPU."""
    settings = xllamacpp.CommonParams()
    settings.model.path = str(model)
    settings.model_alias = {SERVED_MODEL}
    settings.hostnames = ["127.0.0.1"]
    settings.port = port
    settings.n_parallel = replica.slots
    settings.n_ctx = replica.context
    settings.n_threads_http = 8
    settings.cache_ram_mib = 0
    settings.endpoint_metrics = True
    settings.ui = False
    for threads in (settings.cpuparams, settings.cpuparams_batch):
        threads.n_threads = replica.threads
        threads.poll = 0
    return settings


if __name__ == "__main__":
    main()
