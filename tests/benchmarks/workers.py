"""CPU that one proxied request costs with one worker and with several, in the same run.

    python -m tests.benchmarks.workers [--rounds 7] [--seconds 2] [--workers 2] [--limits replicas]

As :mod:`tests.benchmarks.proxy_cpu`, but ours beside ours, with a client key and round by round. All workers
share the one CPU of the proxy, so that what they cost is not what a second core's caches cost.
"""

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

from routing.contract.client_keys import new_key
from tests.benchmarks.processes import cpu_seconds, family, running, two_cpus
from tests.benchmarks.proxy_cpu import HEADS, PATH, write_inputs
from tests.benchmarks.wrk import drive
from tests.ports import free_ports


def measure(options: argparse.Namespace, folder: Path) -> tuple[list[float], list[float]]:
    """CPU µs a request of each round, with one worker and with several."""
    *ports, unused, first, second = free_ports(7)
    replicas, _, fleets, script = write_inputs(
        folder, ports, unused, HEADS["same"], new_key(), limits=options.limits
    )
    proxy_cpu, other_cpu = two_cpus()
    ours = [sys.executable, "-m", "routing", "--fleets", str(fleets), "--admin", "none", "--workers"]
    many = str(options.workers)
    found: tuple[list[float], list[float]] = ([], [])
    with (
        running(["nginx", "-c", str(replicas)], ports[0], other_cpu),
        running([*ours, "1", "--listen", f"127.0.0.1:{first}"], first, proxy_cpu) as one,
        running([*ours, many, "--listen", f"127.0.0.1:{second}"], second, proxy_cpu) as several,
    ):
        for port in (first, second):
            drive(f"http://127.0.0.1:{port}{PATH}", script, 1, options.connections, other_cpu)
        for _ in range(options.rounds):
            for costs, process, port in zip(found, (one, several), (first, second), strict=True):
                pids = family(process.pid)
                before = cpu_seconds(pids)
                url = f"http://127.0.0.1:{port}{PATH}"
                count = drive(url, script, options.seconds, options.connections, other_cpu)
                costs.append((cpu_seconds(pids) - before) / count * 1e6)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--limits", choices=("none", "replicas", "all"), default="replicas")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        one, several = measure(options, Path(folder))
    ratios = [many / alone for many, alone in zip(several, one, strict=True)]
    print(f"CPU µs a request, limits: {options.limits}; medians of {options.rounds} rounds")
    print(f"1 worker: {statistics.median(one):.1f}; {options.workers}: {statistics.median(several):.1f}")
    print(f"round by round: {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")


if __name__ == "__main__":
    main()
