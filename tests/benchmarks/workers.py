"""CPU that one proxied request costs with one worker and with several, ours and nginx's, in the same run.

    python -m tests.benchmarks.workers [--rounds 7] [--seconds 2] [--workers 2] [--limits replicas]

As :mod:`tests.benchmarks.proxy_cpu`, but each proxy beside itself, with a client key and round by round. All
workers share the one CPU of the proxies, so that what they cost is not what a second core's caches cost.

Two loads. *Saturated*: each connection asks again as soon as it was answered, so that several workers take
turns on a full CPU. *Paced*: each connection pauses before it asks again, for 0 to twice ``--pause-ms``, so
that one worker has time to spare and all are offered the same requests per second.
"""

import argparse
import statistics
import sys
import tempfile
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from routing.contract.client_keys import new_key
from tests.benchmarks.processes import cpu_seconds, family, running, two_cpus
from tests.benchmarks.proxy_cpu import HEADS, PATH, replica_command, write_inputs
from tests.benchmarks.wrk import drive
from tests.ports import free_ports

ONE_PROCESS = "worker_processes 1;"


@dataclass(frozen=True)
class Figure:
    """Of one round."""

    cost_us: float
    """CPU a request."""
    rate: float
    """Requests per second."""

    @property
    def busy(self) -> float:
        """Share of the CPU, in percent."""
        return self.cost_us * self.rate / 1e4


Figures = dict[tuple[str, str, int], list[Figure]]
"""Load, proxy and its workers → each round."""


def nginx_conf(made: Path, port: int, own_port: int, workers: int) -> Path:
    """The proxy's settings again, for so many workers, each of which takes its part of the connections."""
    text = made.read_text().replace(ONE_PROCESS, f"worker_processes {workers};")
    text = text.replace(f"listen 127.0.0.1:{port};", f"listen 127.0.0.1:{own_port} reuseport;")
    written = made.with_name(f"proxy-{workers}.conf")
    written.write_text(text.replace("proxy.pid", f"proxy-{workers}.pid"))
    return written


def measure(options: argparse.Namespace, folder: Path) -> Figures:
    *ports, unused, first, second, third, fourth = free_ports(9)
    proxy, fleets, script = write_inputs(
        folder, ports, unused, HEADS["same"], new_key(), limits=options.limits
    )
    paced = script.with_name("paced.lua")
    pause = f"function delay() return math.random(0, {2 * options.pause_ms}) end\n"
    paced.write_text(script.read_text() + pause)
    proxy_cpu, other_cpu = two_cpus()
    ours = [sys.executable, "-m", "routing", "--fleets", str(fleets), "--admin", "none"]
    found: Figures = defaultdict(list)
    with ExitStack() as stack:
        stack.enter_context(running(replica_command("vllm", ports), ports[0], other_cpu))
        systems = []
        for workers, our_port, nginx_port in ((1, first, third), (options.workers, second, fourth)):
            listen = ["--workers", str(workers), "--listen", f"127.0.0.1:{our_port}"]
            process = stack.enter_context(running([*ours, *listen], our_port, proxy_cpu))
            systems.append(("switchyard", workers, process, our_port))
            conf = nginx_conf(proxy, unused, nginx_port, workers)
            process = stack.enter_context(running(["nginx", "-c", str(conf)], nginx_port, proxy_cpu))
            systems.append(("nginx", workers, process, nginx_port))
        for *_, port in systems:
            drive(f"http://127.0.0.1:{port}{PATH}", script, 1, options.connections, other_cpu)
        for _ in range(options.rounds):
            for load, sent in (("saturated", script), ("paced", paced)):
                for name, workers, process, port in systems:
                    pids = family(process.pid)
                    before = cpu_seconds(pids)
                    url = f"http://127.0.0.1:{port}{PATH}"
                    count = drive(url, sent, options.seconds, options.connections, other_cpu)
                    used = cpu_seconds(pids) - before
                    found[load, name, workers].append(Figure(used / count * 1e6, count / options.seconds))
    return found


def report(found: Figures, workers: int) -> None:
    for load in ("saturated", "paced"):
        print(f"\n{load:12}workers   CPU µs a request   requests/s   CPU %")
        for name in ("switchyard", "nginx"):
            for count in (1, workers):
                rounds = found[load, name, count]
                cost = statistics.median(figure.cost_us for figure in rounds)
                rate = statistics.median(figure.rate for figure in rounds)
                busy = statistics.median(figure.busy for figure in rounds)
                print(f"{name:12}{count:7}{cost:19.1f}{rate:13,.0f}{busy:8.0f}")
            several, one = found[load, name, workers], found[load, name, 1]
            ratios = [many.cost_us / alone.cost_us for many, alone in zip(several, one, strict=True)]
            spread = f"({min(ratios):.2f} to {max(ratios):.2f})"
            print(f"  {workers} / 1, round by round: {statistics.median(ratios):.2f} {spread}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--pause-ms", type=int, default=4, help="on average, of each connection when paced")
    parser.add_argument("--limits", choices=("none", "replicas", "all"), default="replicas")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        found = measure(options, Path(folder))
    print(f"Medians of {options.rounds} rounds of {options.seconds} s, limits: {options.limits}")
    report(found, options.workers)


if __name__ == "__main__":
    main()
