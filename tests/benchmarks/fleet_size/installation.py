"""Installation of a benchmark: a data folder, SQLite, a Redis, rows in bulk, and the processes by name.

Import Django only below :func:`prepare`, which sets what its settings read.
"""

import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[3]
REPLICAS_PER_PROCESS = 5000
"""A responder's: a listening socket and a connection each, within 20,000 descriptors."""
PORTS = 1000


class Ports(NamedTuple):
    """On 127.0.0.1."""

    metrics: int
    """Of the first process; the others have those that follow."""
    web: int
    proxy: int
    admin: int


def prepare(folder: Path) -> None:
    """The environment of this process and of those that it starts; then Django."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    for name in [name for name in os.environ if name.startswith("SWITCHYARD_")]:
        del os.environ[name]
    os.environ.update(
        DJANGO_SETTINGS_MODULE="controlplane.settings",
        SWITCHYARD_DATA_DIR=str(folder / "data"),
        SWITCHYARD_REDIS_URL=f"unix://{folder / 'redis.sock'}?db=0",
        SWITCHYARD_ALLOWED_HOSTS="127.0.0.1,localhost",
        SWITCHYARD_COLLECTED_STATIC="0",
        SWITCHYARD_MAX_REPLICAS="12000",
    )
    import django

    django.setup()


def fill(replicas: int, fleets: int, settings: dict[str, float], first_port: int, *, ready: bool) -> None:
    """So many replicas in so many fleets, each at an address and port of its own."""
    from datetime import timedelta

    from django.core.management import call_command
    from django.utils import timezone

    from controlplane.models import Fleet, Replica, ReplicaHealth

    call_command("migrate", verbosity=0)
    probe = {**settings, "load_reports": False}
    rows = [Fleet(name=f"fleet-{n}", protocol="openai", probe=probe) for n in range(fleets)]
    Fleet.objects.bulk_create(rows)
    found = [
        Replica(
            fleet=rows[number % fleets],
            name=f"r{number}",
            url=f"http://127.0.0.{1 + number // PORTS}:{first_port + number % PORTS}",
        )
        for number in range(replicas)
    ]
    Replica.objects.bulk_create(found, batch_size=500)
    state = {"state": "ready", "reason": "200 OK", "has_passed": True} if ready else {}
    ReplicaHealth.objects.bulk_create([ReplicaHealth(replica=one, **state) for one in found], batch_size=500)
    if ready:
        ReplicaHealth.objects.update(since=timezone.now() - timedelta(hours=3))


def responder_commands(replicas: int, first_port: int) -> list[list[str]]:
    addresses = [f"127.0.0.{1 + n}" for n in range(-(-replicas // PORTS))]
    per_process = REPLICAS_PER_PROCESS // PORTS
    return [
        [
            *(sys.executable, "-m", "tests.benchmarks.fleet_size.responders"),
            *("--addresses", ",".join(addresses[first : first + per_process])),
            *("--first-port", str(first_port), "--ports", str(min(PORTS, replicas))),
        ]
        for first in range(0, len(addresses), per_process)
    ]


def commands(folder: Path, ports: Ports, workers: int) -> dict[str, list[str]]:
    """As ``up`` starts them, by name. ``workers``: of the proxy."""
    from controlplane.supervision.options import UpOptions
    from controlplane.supervision.programs import control_plane, proxy_command

    options = UpOptions(port=ports.web, proxy_port=ports.proxy, admin_port=ports.admin, workers=workers)
    found = {program.name: program.command for program in control_plane(options)}
    return {**found, "proxy": proxy_command(options, folder)}


def token() -> str:
    """Of an administrator."""
    from django.contrib.auth.models import User

    from controlplane.services import tokens

    return tokens.create(User.objects.create_superuser("bench"), "bench", "bench")[1]


@contextmanager
def running(command: list[str], log: Path, **environment: str) -> Iterator["subprocess.Popen[bytes]"]:
    with open(log, "wb") as said:
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=said, stderr=subprocess.STDOUT, env={**os.environ, **environment}
        )
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def wait_for_line(log: Path, words: str, limit_s: float = 30) -> None:
    until = time.monotonic() + limit_s
    while words not in log.read_text(errors="replace"):
        if time.monotonic() > until:
            sys.exit(f"no '{words}' within {limit_s} s: {log.read_text(errors='replace')[-2000:]}")
        time.sleep(0.1)
