"""The simulator's batching servers beside real llama.cpp processes: ``python -m tests.benchmarks.llama``.

Four llama.cpp servers are held to unequal shares of a core, by the kernel. What a step costs is measured on
one of them, in CPU seconds. Then one trace goes through a real proxy with the default strategy, without
weights, to these servers, and through the simulator to servers of these costs and speeds. Printed is what
both took, and the simulator's error: its figure ÷ the real one - 1. Nothing passes or fails.

- *servers*: each simulated server gets the very requests that the real one got.
- *servers, CPU as used*: the same, with the costs scaled so that all use the CPU seconds that the real ones
  used.
- *with proxy*: the simulator's proxy chooses; costs as before.

It needs root, for the CPU shares, and about a quarter of a core for a few minutes.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec

from routing.contract.policy import Policy
from routing.simulator.gpus import Gpu
from tests.benchmarks.llama import figures, simulated, trace
from tests.benchmarks.llama.calibration import calibrated
from tests.benchmarks.llama.client import Job, Seen, send
from tests.benchmarks.llama.cpu_shares import NoControlGroups, cpu_s
from tests.benchmarks.llama.server import LlamaServer
from tests.servers.running import Front

SHARES = {"r1": 0.12, "r2": 0.06, "r3": 0.06, "r4": 0.03}
"""Of one core."""
POLICY = Policy(slow_start_s=0.0)
FLEET = "tiny-llm"


def through_a_proxy(servers: Sequence[LlamaServer], jobs: Sequence[Job], folder: Path) -> list[Seen]:
    """One that has just been started."""
    fleet = {
        "name": FLEET,
        "protocol": "openai",
        "policy": {"strategy": POLICY.strategy, "slow_start_s": POLICY.slow_start_s},
        "probe": {"preset": "llama.cpp", "period_s": 10, "timeout_s": 9},
        "replicas": [{"name": server.name, "url": server.url} for server in servers],
    }
    front = Front(folder, [fleet])
    try:
        for server in servers:
            front.until_health(FLEET, server.name, "ready")
        return send(front.proxy.port, jobs)
    finally:
        front.proxy.stop()


def compare(servers: Sequence[LlamaServer], gpu: Gpu, jobs: Sequence[Job], folder: Path) -> str:
    before_s = sum(cpu_s(server.pid) for server in servers)
    real = through_a_proxy(servers, jobs, folder)
    used_s = sum(cpu_s(server.pid) for server in servers) - before_s
    alone, alone_s = simulated.servers_alone(gpu, SHARES, jobs, real)
    scaled = simulated.at_cpu_s(gpu, SHARES, jobs, real, used_s)
    columns = {
        "servers": alone,
        "servers, CPU as used": simulated.servers_alone(scaled, SHARES, jobs, real)[0],
        "with proxy": simulated.behind_a_proxy(scaled, SHARES, jobs, POLICY),
    }
    shown = figures.table(jobs, [*SHARES], real, columns)
    return f"CPU seconds: {used_s:.1f} really, {alone_s:.1f} simulated\n\n{shown}"


def main() -> int:
    """Prints one table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--load", type=float, default=0.6, help="of the shares' capacity; default 0.6")
    parser.add_argument("--seconds", type=float, default=60.0, help="of the arrivals; default 60")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, ExitStack() as life:
        folder = Path(name)
        servers = [LlamaServer(name, share, folder) for name, share in SHARES.items()]
        try:
            for server in servers:
                life.callback(server.end)
                server.start_held()
        except NoControlGroups as problem:
            print(problem, file=sys.stderr)
            return 2
        gpu = calibrated(servers[0])
        jobs = trace.drawn(gpu, sum(SHARES.values()), options.load, options.seconds, options.seed)
        print(f"shares of a core: {SHARES}")
        print(f"costs of a whole core: {msgspec.json.encode(gpu._asdict()).decode()}")
        print(f"{len(jobs)} requests in {options.seconds:g} s, load {options.load:.0%}", flush=True)
        print(compare(servers, gpu, jobs, folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
