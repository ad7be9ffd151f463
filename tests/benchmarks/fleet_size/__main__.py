"""What 10,000 replicas cost: probe lag, CPU of worker and beat and of the conductor, its tick, memory.

    python -m tests.benchmarks.fleet_size --replicas 10000 --period 5 --seconds 30

Every replica answers on a loopback address and port of its own. Worker, beat and conductor run as ``up``
starts them, on SQLite and a Redis of their own. Lag is what the worker measured: how much later than due
each probe was sent. ``--fresh``: no replica has passed yet; also says how long until all are ready.
``--busy``: so many busy loops beside it; also says how many replicas changed their health.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path

from tests.benchmarks.fleet_size import installation

METRICS = {"worker": 24001, "beat": 24002, "conductor": 24003}


def scrape(name: str) -> dict[str, float]:
    """Metric with its labels → value."""
    with urllib.request.urlopen(f"http://127.0.0.1:{METRICS[name]}/metrics", timeout=5) as answer:
        lines = answer.read().decode().splitlines()
    pairs = (line.rpartition(" ") for line in lines if line and line[0] != "#")
    return {key: float(value) for key, _, value in pairs}


def quantile(before: dict[str, float], after: dict[str, float], metric: str, q: float) -> str:
    """Upper bound of the bucket that holds it, seconds."""
    buckets = {}
    for key, value in after.items():
        if found := re.fullmatch(rf'{metric}_bucket{{le="(.*)"}}', key):
            buckets[float(found[1])] = value - before.get(key, 0)
    total = buckets.get(float("inf"), 0)
    return next((f"<= {le:g} s" for le, n in sorted(buckets.items()) if total and n >= q * total), "none")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--replicas", type=int, default=10_000)
    parser.add_argument("--fleets", type=int, default=20)
    parser.add_argument("--period", type=float, default=5.0)
    parser.add_argument("--timeout", type=float, default=5.0)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--first-port", type=int, default=22000)
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--busy", type=int, default=0)
    parser.add_argument("--without-conductor", action="store_true")
    parser.add_argument(
        "--profile", default="", help="write py-spy's flame graph of this process: worker or conductor"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sy-", dir="/tmp") as folder, ExitStack() as stack:
        run(options, Path(folder), stack)


def run(options: argparse.Namespace, folder: Path, stack: ExitStack) -> None:
    installation.prepare(folder)
    from controlplane.supervision import redis_server

    stack.enter_context(
        installation.running(
            redis_server.command(redis_server.find(), folder / "redis.sock"), folder / "redis.log"
        )
    )
    installation.fill(
        options.replicas,
        options.fleets,
        {"period_s": options.period, "timeout_s": options.timeout},
        options.first_port,
        ready=not options.fresh,
    )
    logs = []
    for number, command in enumerate(installation.responder_commands(options.replicas, options.first_port)):
        logs.append(folder / f"responder{number}.log")
        stack.enter_context(installation.running(command, logs[-1]))
        installation.wait_for_line(logs[-1], "listening")
    from django.db import connection

    from controlplane.datastores.redis import client
    from controlplane.models import Event, ReplicaHealth
    from controlplane.probes.lag import probe_lag

    connection.close()
    names = ["worker", "beat"] + ([] if options.without_conductor else ["conductor"])
    commands = installation.celery_commands()
    began = time.monotonic()
    processes = {
        name: stack.enter_context(
            installation.running(
                commands[name], folder / f"{name}.log", SWITCHYARD_METRICS_LISTEN=f"127.0.0.1:{METRICS[name]}"
            )
        )
        for name in names
    }
    if options.fresh:
        until = time.monotonic() + 120
        first_s = counted = 0.0
        while True:
            ready = ReplicaHealth.objects.filter(state="ready").count()
            counted = time.monotonic() - began
            if ready and not first_s:
                first_s = counted
            if ready == options.replicas or time.monotonic() > until:
                break
            time.sleep(0.1)
        print(
            f"{ready} of {options.replicas} ready {counted:.1f} s after the processes were started,",
            f"{counted - first_s:.1f} s after the first of them",
        )
    time.sleep(max(12.0, 2 * options.period))
    for _ in range(options.busy):
        busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        stack.callback(busy.wait)
        stack.callback(busy.kill)
    time.sleep(3 if options.busy else 0)
    before = {name: scrape(name) for name in names}
    cpu = {name: installation.cpu_s(process.pid) for name, process in processes.items()}
    arrived = sum(arrivals(log) for log in logs)
    events = Event.objects.count()
    measured = time.monotonic()
    if options.profile:
        stack.enter_context(
            installation.running(
                [
                    *(
                        str(Path(sys.executable).with_name("py-spy")),
                        "record",
                        "-d",
                        str(int(options.seconds) - 2),
                    ),
                    *("-r", "50", "-f", "raw", "-o", f"/tmp/profile-{options.profile}.txt"),
                    *("-p", str(processes[options.profile].pid)),
                ],
                folder / "py-spy.log",
            )
        )
    overdue = []
    while time.monotonic() - measured < options.seconds:
        overdue.append(probe_lag(client()).lag_s)
        time.sleep(0.25)
    took_s = time.monotonic() - measured
    for name, process in processes.items():
        used = installation.cpu_s(process.pid) - cpu[name]
        memory = installation.memory_bytes(process.pid) / 2**20
        print(f"{name}: {used / took_s:.3f} core, {memory:.0f} MiB")
    after = {name: scrape(name) for name in names}
    print(f"probes arrived: {(sum(arrivals(log) for log in logs) - arrived) / took_s:.0f} a second")
    lateness = "switchyard_probe_lateness_seconds"
    worker = before["worker"], after["worker"]
    print(
        "lag p50",
        quantile(*worker, lateness, 0.5),
        "p99",
        quantile(*worker, lateness, 0.99),
        "p99.9",
        quantile(*worker, lateness, 0.999),
    )
    counted = {
        key: value - before["worker"].get(key, 0)
        for key, value in after["worker"].items()
        if key.startswith(f"{lateness}_bucket")
    }
    print("lag, how many up to:", {key.split('"')[1]: int(value) for key, value in counted.items()})
    print(f"longest overdue and unclaimed: {max(overdue):.2f} s")
    if "conductor" in before:
        ticks = before["conductor"], after["conductor"]
        tick = "switchyard_conductor_tick_duration_seconds"
        made = after["conductor"].get(f"{tick}_count", 0) - before["conductor"].get(f"{tick}_count", 0)
        spent = after["conductor"].get(f"{tick}_sum", 0) - before["conductor"].get(f"{tick}_sum", 0)
        print(
            f"conductor: {made / took_s:.2f} ticks a second, mean {1000 * spent / max(made, 1):.0f} ms,",
            "p99",
            quantile(*ticks, tick, 0.99),
        )
    print(f"changes of health meanwhile: {Event.objects.count() - events}")
    print(
        f"Redis: {client().info('memory')['used_memory'] / 2**20:.0f} MiB,",
        f"database: {os.path.getsize(folder / 'data' / 'db.sqlite3') / 2**20:.0f} MiB",
    )
    for name in names:
        said = (folder / f"{name}.log").read_text(errors="replace").strip()
        if said:
            print(f"--- {name} said\n{said[-1500:]}")


def arrivals(log: Path) -> int:
    """Requests so far, as the responder last said."""
    last = log.read_text().strip().splitlines()[-1].split()
    return int(last[1]) if len(last) == 2 else 0


if __name__ == "__main__":
    main()
