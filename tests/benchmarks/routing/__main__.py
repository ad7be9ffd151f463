"""One trace through ours and its peers to 16 replicas of unequal speed: latencies, not CPU.

    python -m tests.benchmarks.routing [--seconds 30] [--rounds 1] [--only switchyard,nginx]

- *bimodal*, *lognormal*: four slots each; a request sleeps for its seconds ÷ the replica's speed, which is
  1 (six of them), 2 (six) or 4 (four). 60 ms nine times in ten and 1.2 s else, or a lognormal with the same
  mean.
- *batching*: answers are streamed, and every request in flight slows the others on its replica down.

All at 85 % load. Everybody is told the true weights, as far as it can be told (the LLM routers cannot).
``--slowed`` makes one of the fastest three times slower in the middle third; ``--noise 1`` blurs
``max_tokens``, from which ours guesses what a request costs, by a lognormal. Sleeping takes no CPU, so two
CPUs suffice. Nothing here passes or fails by time.
"""

import argparse
import json
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from routing.contract.client_keys import new_key
from tests.benchmarks.peers.__main__ import started
from tests.benchmarks.peers.proxies import PEERS, Peer
from tests.benchmarks.peers.setup import Setup, our_python
from tests.benchmarks.processes import pin, running, two_cpus
from tests.benchmarks.routing import results
from tests.benchmarks.routing.client import Seen, send
from tests.benchmarks.routing.trace import SLOTS, SPEEDS, Job, in_batches, in_slots
from tests.ports import free_ports

ASKED = ("switchyard", "nginx", "haproxy", "envoy", "vllm-router", "sglang-router")
SLOWED, TIMES = len(SPEEDS) - 1, 3.0


@contextmanager
def slowed(port: int, seconds: float, active: bool) -> Iterator[None]:
    """One replica is slower in the middle third of what is sent meanwhile."""

    def tell(times: float) -> None:
        url = f"http://127.0.0.1:{port}/slow?replica={SLOWED}&times={times}"
        urllib.request.urlopen(urllib.request.Request(url, method="POST"), timeout=5).close()

    timers = [
        threading.Timer(seconds * part / 3, tell, [times]) for part, times in ((1, TIMES), (2, 1.0)) if active
    ]
    for timer in timers:
        timer.start()
    try:
        yield
    finally:
        for timer in timers:
            timer.cancel()
        if active:
            tell(1.0)


def through(
    peer: Peer, setup: Setup, cpu: int | None, jobs: list[Job], options: argparse.Namespace
) -> list[Seen]:
    """What became of the trace behind this proxy, freshly started."""
    with ExitStack() as life:
        started(life, peer, setup, cpu)
        time.sleep(1.0)
        life.enter_context(slowed(setup.replicas[0], options.seconds, options.slowed))
        return send(setup.port, setup.key, jobs)


def trace_of(workload: str, options: argparse.Namespace, seed: int) -> list[Job]:
    if workload == "batching":
        return in_batches(options.load, options.seconds, seed, options.noise)
    return in_slots(workload, options.load, options.seconds, seed, options.noise)


def measure(options: argparse.Namespace, peers: list[Peer], folder: Path) -> results.Found:
    proxy_cpu, other_cpu = two_cpus()
    if other_cpu is not None:
        pin(other_cpu)
    found: results.Found = {}
    for workload in options.workloads:
        batching = workload == "batching"
        ports = free_ports(len(SPEEDS))
        kind = "batches" if batching else "slots"
        command = [our_python(), "-m", "tests.benchmarks.routing.replicas", kind, *map(str, ports)]
        with running(command, ports[-1], other_cpu):
            for number in range(options.rounds):
                jobs = trace_of(workload, options, options.seed + number)
                for peer in peers:
                    print(f"{workload}, round {number + 1} of {options.rounds}: {peer.name}", file=sys.stderr)
                    setup = Setup(
                        folder / f"{workload}-{number}-{peer.name}",
                        *free_ports(2),
                        ports,
                        options.tools,
                        new_key(),
                        SPEEDS,
                        None if batching else SLOTS,
                    )
                    seen = through(peer, setup, proxy_cpu, jobs, options)
                    found.setdefault(workload, {}).setdefault(peer.name, []).append(seen)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--seconds", type=float, default=30.0, help="of arrivals, for each proxy and workload"
    )
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--load", type=float, default=0.85)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--noise", type=float, default=0.0, help="sigma of the lognormal by which work is misjudged"
    )
    parser.add_argument("--slowed", action="store_true")
    parser.add_argument(
        "--workloads", default="bimodal,lognormal,batching", help="names, separated by commas"
    )
    parser.add_argument(
        "--only", default="", help="proxies, separated by commas (default: all that are installed)"
    )
    parser.add_argument("--tools", type=Path, default=Path(".venv-peers/bin"), help="where pip put the peers")
    parser.add_argument("--json", type=Path, help="write every figure to this file as well")
    parser.add_argument("--plots", type=Path, help="a folder for one plot of each workload")
    options = parser.parse_args()
    options.tools = options.tools.absolute()
    options.workloads = options.workloads.split(",")
    unknown = set(options.workloads) - {"bimodal", "lognormal", "batching"}
    if unknown:
        parser.error(f"there is no workload {', '.join(unknown)}; there are: bimodal, lognormal, batching")
    named = [peer for peer in PEERS if peer.name in (options.only.split(",") if options.only else ASKED)]
    peers = [peer for peer in named if peer.found(options.tools)]
    for peer in named:
        if peer not in peers:
            print(f"{peer.name} is not installed and left out ({peer.install}, see --tools)", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        found = measure(options, peers, Path(folder))
    results.report(found, options)
    if options.json:
        options.json.write_text(json.dumps(results.figures(found), indent=1) + "\n")
    if options.plots:
        results.plot(found, options.plots)


if __name__ == "__main__":
    main()
