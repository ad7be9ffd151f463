"""What 10,000 replicas cost: probe lag, CPU of worker and beat and of the conductor, its tick, memory.

    python -m tests.benchmarks.fleet_size --replicas 10000 --period 5 --seconds 30
    python -m tests.benchmarks.fleet_size --proxy-workers 2 --requests 200 --changes 200
    python -m tests.benchmarks.fleet_size --proxy-workers 2 --requests 50 --replicas 5000 --soak --seconds 600

Every replica answers on a loopback address and port of its own. Worker, beat and conductor run as ``up``
starts them, on SQLite and a Redis of their own. Lag is what the worker measured: how much later than due
each probe was sent. ``--proxy-workers``: a proxy runs too, so many of whose workers report all replicas each
second; ``--requests``: so many a second go through it. ``--changes``: the web process runs too, so many
replicas are changed by its API, and it is read while another connection locks the database.
``--fresh``: no replica has passed yet; also says how long until all are ready.
``--busy``: so many busy loops beside it; also says how many replicas changed their health.
CPU is in cores, as the processes used it: what else runs on the machine changes it little.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from tests.benchmarks.fleet_size import api_calls, installation, measured, soak
from tests.benchmarks.processes import cpu_seconds, family, resident_bytes

LATENESS = "switchyard_probe_lateness_seconds"
TICK = "switchyard_conductor_tick_duration_seconds"
LOCKED = ["/system", "/fleets", "/fleets/fleet-0/replicas", "/live", "/events"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--replicas", type=int, default=10_000)
    parser.add_argument("--fleets", type=int, default=20)
    parser.add_argument("--period", type=float, default=5.0)
    parser.add_argument("--timeout", type=float, default=5.0)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--first-port", type=int, default=22000, help="of replicas; so many as 1000 follow")
    parser.add_argument("--ports", type=int, default=24000, help="of all else; some ten follow")
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--busy", type=int, default=0)
    parser.add_argument("--without-conductor", action="store_true")
    parser.add_argument("--proxy-workers", type=int, default=0)
    parser.add_argument("--requests", type=float, default=0.0, help="a second, through the proxy")
    parser.add_argument("--changes", type=int, default=0, help="of replicas, by the API")
    parser.add_argument("--registrations", type=int, default=0, help="of new replicas, by 32 clients at once")
    parser.add_argument("--soak", action="store_true", help="for --seconds, while replicas come and go")
    parser.add_argument("--profile", default="", help="write py-spy's samples of this process to /tmp")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sy-", dir="/tmp") as folder, ExitStack() as stack:
        Run(options, Path(folder), stack).measure()


class Run:
    """One installation, and what is measured of it."""

    def __init__(self, options: argparse.Namespace, folder: Path, stack: ExitStack) -> None:
        self.options = options
        self.folder = folder
        self.stack = stack
        first = options.ports
        self.ports = installation.Ports(metrics=first + 4, web=first, proxy=first + 1, admin=first + 2)
        self.metrics_ports: dict[str, int] = {}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.responder_logs: list[Path] = []

    def start(self, command: list[str], name: str, **environment: str) -> "subprocess.Popen[bytes]":
        log = self.folder / f"{name}.log"
        return self.stack.enter_context(installation.running(command, log, **environment))

    def prepare(self) -> None:
        """Redis, rows, and the replicas' servers."""
        installation.prepare(self.folder)
        from controlplane.supervision import redis_server

        self.start(redis_server.command(redis_server.find(), self.folder / "redis.sock"), "redis")
        options = self.options
        probe = {"period_s": options.period, "timeout_s": options.timeout}
        installation.fill(
            options.replicas, options.fleets, probe, options.first_port, ready=not options.fresh
        )
        for number, command in enumerate(
            installation.responder_commands(options.replicas, options.first_port)
        ):
            self.start([*command, *(["--churn"] if options.soak else [])], f"responder{number}")
            self.responder_logs.append(self.folder / f"responder{number}.log")
            installation.wait_for_line(self.responder_logs[-1], "listening")

    def start_processes(self) -> None:
        options = self.options
        names = ["worker", "beat"]
        names += [] if options.without_conductor else ["conductor"]
        names += ["web"] if options.changes or options.soak else []
        names += ["proxy"] if options.proxy_workers else []
        commands = installation.commands(self.folder, self.ports, options.proxy_workers or 1)
        for number, name in enumerate(names):
            port = self.metrics_ports[name] = self.ports.metrics + number
            listen = f"127.0.0.1:{port}"
            self.processes[name] = self.start(commands[name], name, SWITCHYARD_METRICS_LISTEN=listen)

    def wait_until_started(self) -> None:
        until = time.monotonic() + 60
        while True:
            try:
                self.scraped()
                return
            except OSError:
                if time.monotonic() > until:
                    raise
            time.sleep(0.2)

    def wait_until_ready(self) -> None:
        """Of ``--fresh``."""
        from controlplane.models import ReplicaHealth

        began = time.monotonic()
        first_s = counted = 0.0
        while True:
            ready = ReplicaHealth.objects.filter(state="ready").count()
            counted = time.monotonic() - began
            if ready and not first_s:
                first_s = counted
            if ready == self.options.replicas or counted > 120:
                break
            time.sleep(0.1)
        print(
            f"{ready} of {self.options.replicas} ready {counted:.1f} s after the processes were started,",
            f"{counted - first_s:.1f} s after the first of them",
        )

    def load(self) -> None:
        """What is to run beside it."""
        options = self.options
        for _ in range(options.busy):
            busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            self.stack.callback(busy.wait)
            self.stack.callback(busy.kill)
        if options.requests:
            clients = [sys.executable, "-m", "tests.benchmarks.fleet_size.clients"]
            clients += ["--port", str(self.ports.proxy), "--fleets", str(options.fleets)]
            self.start([*clients, "--per-second", str(options.requests)], "clients")
        time.sleep(12 if options.requests else 3 if options.busy else 0)

    def profile(self, *names: str) -> None:
        """If one of these is to be."""
        name = self.options.profile
        if name in names:
            command = [str(Path(sys.executable).with_name("py-spy")), "record", "-r", "50", "-f", "raw"]
            command += ["-d", str(max(int(self.options.seconds) - 2, 5)), "-o", f"/tmp/profile-{name}.txt"]
            self.start([*command, "-p", str(self.processes[name].pid)], "py-spy")

    def arrived(self) -> int:
        return sum(map(arrivals, self.responder_logs))

    def scraped(self) -> dict[str, measured.Page]:
        return {name: measured.scrape(port) for name, port in self.metrics_ports.items() if name != "proxy"}

    def cpu(self) -> dict[str, float]:
        return {name: cpu_seconds(family(process.pid)) for name, process in self.processes.items()}

    def measure(self) -> None:
        self.prepare()
        from django.db import connection

        from controlplane.datastores.redis import client
        from controlplane.models import Event
        from controlplane.probes.lag import probe_lag

        token = installation.token() if self.options.changes or self.options.soak else ""
        connection.close()
        self.start_processes()
        if self.options.fresh:
            self.wait_until_ready()
        self.wait_until_started()
        time.sleep(max(12.0, 2 * self.options.period))
        self.load()
        if self.options.soak:
            self.soak(token)
            return
        before, cpu, arrived = self.scraped(), self.cpu(), self.arrived()
        newest = Event.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
        began = time.monotonic()
        self.profile("worker", "conductor", "beat")
        overdue = []
        while time.monotonic() - began < self.options.seconds:
            overdue.append(probe_lag(client()).lag_s)
            time.sleep(0.25)
        took_s, used, after = time.monotonic() - began, self.cpu(), self.scraped()
        for name, process in self.processes.items():
            pids = family(process.pid)
            memory = ", ".join(f"{resident_bytes(pid) / 2**20:.0f}" for pid in pids)
            print(f"{name}: {(used[name] - cpu[name]) / took_s:.3f} core, {memory} MiB")
        print(f"requests arrived at replicas: {(self.arrived() - arrived) / took_s:.0f} a second")
        worker = before["worker"], after["worker"]
        quantiles = {q: measured.quantile(*worker, LATENESS, q) for q in (0.5, 0.99, 0.999)}
        print("lag p50", quantiles[0.5], "p99", quantiles[0.99], "p99.9", quantiles[0.999])
        print("lag, how many up to:", measured.buckets(*worker, LATENESS))
        print(f"longest overdue and unclaimed: {max(overdue):.2f} s")
        if "conductor" in before:
            pages = before["conductor"], after["conductor"]
            made, mean = measured.mean_ms(*pages, TICK)
            print(f"conductor: {made / took_s:.2f} ticks a second, mean {mean:.0f} ms,", end=" ")
            print("p99", measured.quantile(*pages, TICK, 0.99), measured.buckets(*pages, TICK))
        since = Event.objects.filter(pk__gt=newest)
        print(f"changes of health meanwhile: {since.filter(kind=Event.Kind.HEALTH).count()}")
        for text in since.exclude(kind=Event.Kind.HEALTH).values_list("text", flat=True)[:5]:
            print(f"  also on the timeline: {text}")
        database = self.folder / "data" / "db.sqlite3"
        if self.options.changes:
            self.call_api(token, database)
        redis_mib = client().info("memory")["used_memory"] / 2**20
        print(f"Redis: {redis_mib:.0f} MiB, database: {os.path.getsize(database) / 2**20:.0f} MiB")
        for name in self.processes:
            said = (self.folder / f"{name}.log").read_text(errors="replace").strip()
            if said:
                print(f"--- {name} said\n{said[-1500:]}")

    def soak(self, token: str) -> None:
        from controlplane.datastores.redis import client
        from controlplane.models import Event

        options = self.options
        with soak.Changes(self.ports.web, token, options.replicas, options.fleets) as changes:
            soak.watch(
                options.seconds,
                {name: process.pid for name, process in self.processes.items()},
                lambda: measured.scrape(self.metrics_ports["conductor"]),
                self.folder / "data" / "db.sqlite3",
                lambda: int(client().info("memory")["used_memory"]),
                Event.objects.count,
            )
        print(f"{changes.made} changes by the API, {changes.failed} of them refused")

    def call_api(self, token: str, database: Path) -> None:
        options = self.options
        call = api_calls.Caller(self.ports.web, token)
        api_calls.change_replicas(call, options.replicas, options.fleets, 10)  # imports what it needs
        self.profile("web")
        cpu = self.cpu()
        took, unfinished = api_calls.change_replicas(call, options.replicas, options.fleets, options.changes)
        p50, p99 = (api_calls.percentile(took, q) for q in (0.5, 0.99))
        print(
            f"{len(took)} changes of replicas until all workers have it: p50 {p50:.0f} ms, p99 {p99:.0f} ms,"
        )
        print(f"  longest {max(took):.0f} ms; {unfinished} answered before that")
        spent = {name: f"{1000 * (now - cpu[name]) / len(took):.0f}" for name, now in self.cpu().items()}
        print("  ms of CPU a change, the process's other work included:", spent)
        if options.registrations:
            self.register(token)
        for path, (ms, status) in api_calls.read_locked(call, database, LOCKED).items():
            print(f"database locked, GET {path}: {status} within {ms:.0f} ms")

    def register(self, token: str) -> None:
        """Replicas at addresses of their own, where nobody answers."""
        urls = [f"http://127.1.{n // 250}.{1 + n % 250}:9" for n in range(self.options.registrations)]
        before, page = self.cpu(), measured.scrape(self.metrics_ports["web"])
        took_s, took_ms, unfinished = api_calls.register_at_once(self.ports.web, token, urls)
        published = {
            key: int(value - page.get(key, 0))
            for key, value in measured.scrape(self.metrics_ports["web"]).items()
            if key.startswith("switchyard_publishes_total")
        }
        print(
            f"{len(urls)} replicas registered at once in {took_s:.1f} s, each until all workers have it:",
            end=" ",
        )
        p50, p99 = (api_calls.percentile(took_ms, q) for q in (0.5, 0.99))
        print(f"p50 {p50:.0f} ms, p99 {p99:.0f} ms; {unfinished} answered before; publishes {published}")
        print("  seconds of CPU:", {name: f"{now - before[name]:.1f}" for name, now in self.cpu().items()})


def arrivals(log: Path) -> int:
    """Requests so far, as the responder last said."""
    last = log.read_text().strip().splitlines()[-1].split()
    return int(last[1]) if len(last) == 2 else 0


if __name__ == "__main__":
    main()
