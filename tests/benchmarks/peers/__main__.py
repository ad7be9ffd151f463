"""Our proxy beside its peers, in one run: what a request and a stream cost, and what they are slowed down by.

    python -m tests.benchmarks.peers [--rounds 5] [--only switchyard,nginx] [--tools .venv-peers/bin]
        [--answers vllm] [--heads same] [--rate 200]

Those peers take part that are installed; the others are named with the command that brings them. Each proxy
has one CPU to itself, one after another within each round, so that a machine whose speed drifts drifts for
all; load and replicas share another CPU. Behind each are the same four replicas, which send what vLLM or
llama.cpp sends (:mod:`tests.benchmarks.recorded`), to requests with a body of 500 bytes. Ours runs with all
guards, with metrics, and asks for a client key.

- CPU: the proxy's own user and system time, divided by the answers that wrk counted, 64 connections.
- One port: the same with a single replica.
- Added: 200 requests a second, open loop, less the same straight to a replica in the same round; ``--rate 0``
  leaves it out.
- Streams: 100 at a time, each on a new connection; the proxy's CPU for 10,000 events.
- Memory: proportional resident set of all the proxy's processes, at the end.

Nothing here passes or fails by time.
"""

import argparse
import os
import shutil
import statistics
import sys
import tempfile
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path

from routing.contract.client_keys import new_key
from tests.benchmarks.peers import load
from tests.benchmarks.peers.proxies import PEERS, Peer
from tests.benchmarks.peers.setup import Setup, our_python
from tests.benchmarks.processes import (
    circumstances,
    cpu_seconds,
    family,
    memory_bytes,
    pin,
    running,
    two_cpus,
)
from tests.benchmarks.proxy_cpu import HEADS, VARIED
from tests.benchmarks.recorded import KINDS
from tests.ports import free_ports

STREAM_RUNS = 3
"""After one that opens the connections to the replicas."""
WARMING_ROUNDS = 20
"""Of a second each, until it has answered: some load half of themselves with the first request."""
Figures = dict[str, dict[str, list[float]]]
"""Peer → what was measured → one figure a round."""


def started(stack: ExitStack, peer: Peer, setup: Setup, cpu: int | None) -> int:
    """Its process id, once it listens."""
    setup.folder.mkdir()
    log = setup.folder / "said"
    command = peer.command(setup)
    environment = {**peer.environment, "PATH": f"{setup.tools}:{os.environ['PATH']}"}
    run = running(command, setup.port, cpu, environment=environment, log=log, limit_s=90)
    return stack.enter_context(run).pid


def measure(options: argparse.Namespace, peers: list[Peer], folder: Path) -> Figures:
    proxy_cpu, other_cpu = two_cpus()
    if other_cpu is not None:
        pin(other_cpu)
    key = new_key()
    replicas = free_ports(4)
    figures: Figures = {peer.name: defaultdict(list) for peer in peers}
    with ExitStack() as stack:
        answering = [our_python(), "-m", "tests.benchmarks.recorded_replica", options.answers]
        stack.enter_context(running([*answering, *map(str, replicas)], replicas[0], other_cpu))
        for number in range(options.rounds):
            direct = None
            if options.rate:
                direct = load.middle_and_late(load.at_a_rate(replicas[0], key, options.rate, options.seconds))
            for peer in peers:
                print(f"round {number + 1} of {options.rounds}: {peer.name}", file=sys.stderr)
                found = figures[peer.name]
                for column, some in (("cpu_us", replicas), ("one_us", replicas[:1])):
                    place = folder / f"{peer.name}-{number}-{len(some)}"
                    setup = Setup(place, *free_ports(2), some, options.tools, key)
                    with ExitStack() as life:
                        pid = started(life, peer, setup, proxy_cpu)
                        measure_answers(found, column, setup, pid, options, other_cpu)
                        if column == "cpu_us":
                            measure_added(found, setup, options, direct)
                            measure_streams(found, setup, pid, options)
                            found["memory_mib"].append(memory_bytes(family(pid)) / 2**20)
    return figures


def measure_answers(
    found: dict[str, list[float]],
    column: str,
    setup: Setup,
    pid: int,
    options: argparse.Namespace,
    cpu: int | None,
) -> None:
    """CPU of each answer, in this column."""

    def drive(seconds: float) -> int:
        heads = VARIED % HEADS[options.heads] if HEADS[options.heads] else ""
        return load.as_much_as_goes(
            setup.port, setup.folder, setup.key, seconds, options.connections, cpu, heads
        )

    for _ in range(WARMING_ROUNDS):
        if drive(1):
            break
    # Asked for late: by now every worker has been started.
    pids = family(pid)
    before = cpu_seconds(pids)
    count = drive(options.seconds)
    used = cpu_seconds(pids) - before
    found[column].append(used / count * 1e6)
    if column == "cpu_us":
        found["per_second"].append(count / options.seconds)
        found["busy"].append(used / options.seconds * 100)


def measure_added(
    found: dict[str, list[float]],
    setup: Setup,
    options: argparse.Namespace,
    direct: tuple[float, float] | None,
) -> None:
    if direct is not None:
        took = load.at_a_rate(setup.port, setup.key, options.rate, options.seconds)
        middle, late = load.middle_and_late(took)
        found["added_p50_ms"].append(middle - direct[0])
        found["added_p99_ms"].append(late - direct[1])


def measure_streams(
    found: dict[str, list[float]], setup: Setup, pid: int, options: argparse.Namespace
) -> None:
    load.streams(setup.port, setup.key, options.streams)
    pids = family(pid)
    before = cpu_seconds(pids)
    events = sum(load.streams(setup.port, setup.key, options.streams) for _ in range(STREAM_RUNS))
    found["stream_cpu_ms"].append((cpu_seconds(pids) - before) / events * 1e4 * 1e3)


COLUMNS = {
    "cpu_us": ("CPU, µs a request", "{:.1f}"),
    "one_us": ("one port", "{:.1f}"),
    "per_second": ("requests/s", "{:,.0f}"),
    "busy": ("% of its CPU", "{:.0f}"),
    "added_p50_ms": ("added p50, ms", "{:.2f}"),
    "added_p99_ms": ("added p99, ms", "{:.2f}"),
    "stream_cpu_ms": ("CPU, ms for 10,000 events", "{:.0f}"),
    "memory_mib": ("memory, MiB", "{:.0f}"),
}


def report(figures: Figures, options: argparse.Namespace) -> None:
    print(circumstances())
    print(
        f"medians (least to most) of {options.rounds} rounds of {options.seconds:g} s; {options.connections} "
        f"connections; {options.rate:g} requests/s for what is added; {options.streams} streams; answers of "
        f"{options.answers}; heads: {options.heads}\n"
    )
    columns = {column: form for column, form in COLUMNS.items() if options.rate or "added" not in column}
    print("| | " + " | ".join(title for title, _ in columns.values()) + " |")
    print("| --- |" + " ---: |" * len(columns))
    for name, found in figures.items():
        cells = [cell(found[column], form) for column, (_, form) in columns.items()]
        print(f"| {name} | " + " | ".join(cells) + " |")
    print("\nfour ports ÷ one, round by round: median (least to most)\n")
    for name, found in figures.items():
        print(f"- {name}: {ratio(found['cpu_us'], found['one_us'])}")
    ours = figures.get("switchyard")
    if ours is None:
        return
    print("\nours ÷ theirs, round by round: median (least to most)\n")
    for name, found in figures.items():
        if name != "switchyard":
            request = ratio(ours["cpu_us"], found["cpu_us"])
            streams = ratio(ours["stream_cpu_ms"], found["stream_cpu_ms"])
            print(f"- {name}: CPU a request {request}, of streams {streams}")


def cell(values: list[float], form: str) -> str:
    middle, least, most = (
        form.format(value) for value in (statistics.median(values), min(values), max(values))
    )
    return f"{middle} ({least} to {most})"


def ratio(ours: list[float], theirs: list[float]) -> str:
    ratios = [one / other for one, other in zip(ours, theirs, strict=True)]
    return cell(ratios, "{:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--rate", type=float, default=200.0)
    parser.add_argument("--answers", choices=KINDS, default="vllm", help="whose answers replicas send")
    parser.add_argument("--heads", choices=HEADS, default="same", help="as of tests.benchmarks.proxy_cpu")
    parser.add_argument("--streams", type=int, default=100)
    parser.add_argument(
        "--only", default="", help="names, separated by commas (default: all that are installed)"
    )
    parser.add_argument("--tools", type=Path, default=Path(".venv-peers/bin"), help="where pip put the peers")
    options = parser.parse_args()
    options.tools = options.tools.absolute()
    if shutil.which("nginx") is None or shutil.which("wrk") is None:
        print("Skipped: this benchmark needs nginx and wrk (apt-get install nginx-light wrk).")
        return
    wanted = [peer for peer in PEERS if not options.only or peer.name in options.only.split(",")]
    peers = [peer for peer in wanted if peer.found(options.tools)]
    for peer in wanted:
        if peer not in peers:
            print(f"{peer.name} is not installed and left out ({peer.install}, see --tools)", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        report(measure(options, peers, Path(folder)), options)


if __name__ == "__main__":
    main()
