"""``python -m examples.client --proxy http://127.0.0.1:8080``: gentle traffic until a signal."""

import argparse
import asyncio
import contextlib
import random
import signal
from pathlib import Path

from examples.client.load import Client
from examples.client.patience import wait_until_ready
from examples.client.trace import replayed, synthetic


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.client", description=__doc__)
    parser.add_argument("--proxy", default="http://127.0.0.1:8080", help="the proxy's URL")
    parser.add_argument("--rate", type=float, default=5.0, help="requests a second to both fleets (5)")
    parser.add_argument("--most-open", type=int, default=32, help="requests open at once at most (32)")
    parser.add_argument("--wait-for", help="status page of the proxy: begin when both fleets can answer")
    parser.add_argument("--trace", type=Path, help="an Azure LLM inference trace (CSV) to replay")
    parser.add_argument("--key-file", type=Path, help="file of a client key, sent while the file is there")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.rate <= 0:
        parser.error("--rate must be above 0")
    if options.trace and not options.trace.is_file():
        parser.error(f"there is no trace at {options.trace}")
    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(run(options))


async def run(options: argparse.Namespace) -> None:
    client = Client(options.proxy, options.rate, options.most_open, options.seed, options.key_file)
    arrivals = replayed(options.trace) if options.trace else synthetic(random.Random(options.seed))
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    if options.wait_for:
        await wait_until_ready(options.wait_for)
    await client.run(arrivals)


if __name__ == "__main__":
    main()
