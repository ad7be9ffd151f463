"""The scaling signal of a running Switchyard, followed by who scales, and an oracle that knows the load.

``python -m tests.benchmarks.scaling_live [--base 20] [--times 10] [--start-s 5] [--plateau-s 120]`` starts
all of Switchyard and servers with slots. Requests come by chance at a rate that grows tenfold within 5 s.
Each second the signal is read by the API, and replicas are registered, started and deleted as it says; a
started one is ready after ``--start-s``. The oracle knows the rate, and what a replica takes at its target.
Printed: replica-seconds that the signal was short of and beyond, in parts of the oracle's, and what became of
the requests. Nothing passes or fails.
"""

import argparse
import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from math import ceil
from pathlib import Path
from random import Random
from statistics import quantiles

from routing.contract.policy import Scaling
from tests.ports import free_ports
from tests.proxy_process import until
from tests.system.stack import Stack, exchange

FLEET, SLOTS, SERVICE_S, MOST = "sale", 8, 0.2, 16
RISE_S = 5.0
LEARN_S = 60
"""Until it is known how long a request takes; not part of the figures."""
BODY = b'{"x": 1}'


class Load:
    """Requests that come by chance, each on a connection that is free, or on a new one."""

    def __init__(self, port: int, options: argparse.Namespace) -> None:
        self._port = port
        self._options = options
        self._rng = Random(options.seed)
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self.statuses: Counter[int] = Counter()
        self.took_s: list[float] = []
        self.began = 0.0

    def rate(self, at_s: float) -> float:
        """Requests a second."""
        base, times = self._options.base, self._options.times
        return float(base * (1 + (times - 1) * min(max((at_s - LEARN_S) / RISE_S, 0.0), 1.0)))

    async def run(self, lasts_s: float) -> None:
        loop = asyncio.get_running_loop()
        self.began = loop.time()
        tasks, due = set(), self.began
        while due < self.began + lasts_s:
            due += self._rng.expovariate(self.rate(due - self.began))
            await asyncio.sleep(max(due - loop.time(), 0))
            task = loop.create_task(self._ask())
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        await asyncio.gather(*tasks)

    async def _ask(self) -> None:
        began = time.monotonic()
        try:
            reader, writer = (
                self._idle.pop() if self._idle else await asyncio.open_connection("127.0.0.1", self._port)
            )
            writer.write(
                b"POST /fleets/%b/x HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
                b"Content-Length: %d\r\n\r\n%b" % (FLEET.encode(), len(BODY), BODY)
            )
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(
                int(one.split(b":")[1])
                for one in head.lower().split(b"\r\n")
                if one.startswith(b"content-length")
            )
            await reader.readexactly(length)
            self.statuses[int(head.split(b" ")[1])] += 1
            self._idle.append((reader, writer))
        except (OSError, asyncio.IncompleteReadError):
            self.statuses[0] += 1
        self.took_s.append(time.monotonic() - began)


class WhoScales:
    """Does what the signal says, once a second, and writes down what it said."""

    def __init__(self, stack: Stack, ports: list[int], verbose: bool) -> None:
        self._stack, self._verbose = stack, verbose
        self._spare = list(ports)
        self._there: list[int] = []
        self.said: list[tuple[float, int | None, int]] = []
        """When, how many are desired, how many take requests."""

    def begin(self, count: int) -> None:
        for _ in range(count):
            self._add()

    async def follow(self, load: Load) -> None:
        while True:
            await asyncio.sleep(1.0)
            await asyncio.to_thread(self._once, asyncio.get_running_loop().time() - load.began)

    def _once(self, at_s: float) -> None:
        signal = self._stack.api("GET", f"/fleets/{FLEET}/scaling")
        desired = signal["desired"]
        self.said.append((at_s, desired, signal["taking"]))
        if self._verbose:
            print(f"{at_s:6.1f} s: {desired}, {signal['taking']} take: {signal['words']}", flush=True)
        if desired is None:
            return
        while len(self._there) < min(desired, MOST):
            self._add()
        while len(self._there) > max(desired, 1):
            self._remove()

    def _add(self) -> None:
        port = self._spare.pop(0)
        exchange(port, "POST", "/_start", {})
        self._stack.api(
            "POST", f"/fleets/{FLEET}/replicas", {"name": f"r{port}", "url": f"http://127.0.0.1:{port}"}
        )
        self._there.append(port)

    def _remove(self) -> None:
        port = self._there.pop()
        self._stack.api("DELETE", f"/fleets/{FLEET}/replicas/r{port}")
        exchange(port, "POST", "/_stop", {})
        self._spare.append(port)


async def measure(stack: Stack, ports: list[int], options: argparse.Namespace) -> None:
    per_s = SLOTS * Scaling().target_percent / 100 / SERVICE_S
    load, scales = Load(stack.proxy_port, options), WhoScales(stack, ports, options.verbose)
    first = ceil(options.base / per_s)
    await asyncio.to_thread(scales.begin, first)
    await asyncio.to_thread(until, lambda: len(stack.eligible(FLEET)) == first, "the first are ready", 60)
    following = asyncio.create_task(scales.follow(load))
    await load.run(LEARN_S + RISE_S + options.plateau_s)
    following.cancel()
    seen = [one for one in scales.said if one[0] >= LEARN_S - 10]
    told = [(ceil(load.rate(at_s) / per_s), desired) for at_s, desired, _ in seen if desired is not None]
    needed = sum(oracle for oracle, _ in told)
    missing = sum(max(oracle - desired, 0) for oracle, desired in told)
    excess = sum(max(desired - oracle, 0) for oracle, desired in told)
    at_peak = next((at_s for at_s, _, taking in seen if taking >= told[-1][0]), None)
    print(f"{os.cpu_count()} CPUs; {options.base} requests/s, times {options.times} within {RISE_S:g} s;")
    print(f"replicas take {per_s:g}/s at their target and start within {options.start_s:g} s")
    print(f"missing {100 * missing / needed:.1f} %, excess {100 * excess / needed:.1f} % of {needed}")
    print(f"readings {len(seen)}, of which {len(seen) - len(told)} could not tell")
    if at_peak is not None:
        print(f"as many as the oracle's took requests {at_peak - LEARN_S:.1f} s after the rise began")
    percentiles = quantiles(load.took_s, n=100)
    print(
        f"requests by status: {dict(load.statuses)}; p50 {percentiles[49]:.2f} s, p99 {percentiles[98]:.2f} s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--base", type=int, default=20, help="requests a second at first")
    parser.add_argument("--times", type=int, default=10)
    parser.add_argument("--start-s", type=float, default=5.0)
    parser.add_argument("--plateau-s", type=float, default=120.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--verbose", action="store_true", help="print each reading")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="sy-", dir="/tmp"))
    ports = free_ports(MOST)
    command = [sys.executable, "-m", "tests.benchmarks.slot_servers", str(options.start_s), str(SERVICE_S)]
    servers = subprocess.Popen([*command, str(SLOTS), *map(str, ports)])
    stack = Stack(folder, "--no-examples")
    try:
        stack.wait_until_up()
        policy = {"max_concurrency": SLOTS, "scaling": {"start_s": options.start_s, "scale_down_after_s": 60}}
        probe = {"preset": "http", "path": "/", "period_s": 1}
        stack.api("POST", "/fleets", {"name": FLEET, "protocol": "generic", "policy": policy, "probe": probe})
        asyncio.run(measure(stack, ports, options))
    finally:
        stack.stop()
        servers.kill()
        servers.wait()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
