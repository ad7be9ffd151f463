"""Programs: every process that ``up`` starts, with its command, port and stop order."""

import os
import sys
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from controlplane.supervision import redis_server
from controlplane.supervision.environment import OWN_REDIS
from controlplane.supervision.options import UpOptions
from controlplane.supervision.ports import PortUse

PYTHON = sys.executable


class Group(IntEnum):
    """Stopped from the highest to the lowest, each once the one before is gone: a proxy that drains
    needs its replicas, and everything else needs Redis."""

    BASE = 10
    FRONT = 20


EXAMPLES_NICE = 5
"""Models load and compute; on two cores they would hold up the start of everything else."""


DRAIN_S = 600
"""How long the proxy finishes what it has begun, streams of minutes too, when it is stopped or replaced."""


WEB_OPTIONS = [
    *("--http", "controlplane.web.http_connection:HttpConnection"),
    *("--ws", "controlplane.web.websocket_connection:WebSocketConnection"),
    *("--ws-max-size", "4096", "--ws-max-queue", "4"),
    *("--no-access-log", "--no-server-header", "--no-proxy-headers"),
]
"""uvicorn's, wherever the web process is started: limits of connections; pages send nothing by WebSocket.
Whose X-Forwarded-For is believed is for controlplane/web/forwarded_headers.py to say."""


class Program(NamedTuple):
    name: str
    command: list[str]
    group: Group
    stop_s: int = 2
    """Seconds between SIGTERM and SIGKILL; in haste 5 s at most."""
    nice: int = 0
    """Above 0: lower CPU priority than the others."""
    metrics_port: int | None = None
    """Port of its metrics listener, on this machine only."""
    admin_port: int | None = None
    """Port of a proxy's admin listener, on this machine only."""
    redis_socket: Path | None = None
    """Unix socket of a Redis server."""
    outlives: bool = False
    """Whether it is kept as it runs when ``up`` was killed and is started again: requests go through it."""

    @property
    def lives_at(self) -> int | Path | None:
        """Where it shows that it lives: port of its ``/livez``, or socket of Redis; ``None``: nowhere."""
        return self.metrics_port or self.admin_port or self.redis_socket


class ExampleReplica(NamedTuple):
    fleet: str
    name: str
    offset: int
    """Port above ``--examples-port``."""
    arguments: list[str]


TINY_LLM = [
    ExampleReplica("tiny-llm", name, offset, ["-m", "examples.tiny_llm.server", "--replica", name])
    for offset, name in enumerate(("quick", "steady", "deep", "wide"), start=1)
]
DIGITS = [
    ExampleReplica("digits", name, offset, ["-m", "examples.digits.server", "--kind", name])
    for offset, name in enumerate(("linear", "forest", "large-forest"), start=101)
]


EXAMPLE_FLEETS = frozenset(replica.fleet for replica in TINY_LLM + DIGITS)
EXAMPLE_KEY = "example-client.key"
"""In the data folder: the client key of the example client, while requests need one."""


def programs(options: UpOptions, data: Path, redis_url: str) -> list[Program]:
    """All processes for these options; raises UpError when there is no Redis to run."""
    found: list[Program] = []
    if os.environ.get(OWN_REDIS):
        socket = Path(urlsplit(redis_url).path)
        server = redis_server.command(redis_server.find(), socket)
        found.append(Program("redis", server, Group.BASE, redis_socket=socket, outlives=True))
    if options.examples:
        found += [example(replica, options, data) for replica in TINY_LLM + DIGITS]
    found += control_plane(options)
    proxy = proxy_command(options, data)
    port = options.admin_port
    found.append(Program("proxy", proxy, Group.FRONT, stop_s=DRAIN_S + 10, admin_port=port, outlives=True))
    if options.client:
        client = [PYTHON, "-u", "-m", "examples.client", "--proxy", options.proxy_url]
        client += ["--wait-for", f"http://127.0.0.1:{options.admin_port}/status"]
        client += ["--key-file", str(data / EXAMPLE_KEY)]
        found.append(Program("example-client", client, Group.FRONT, stop_s=1, nice=EXAMPLES_NICE))
    return found


def example(replica: ExampleReplica, options: UpOptions, data: Path) -> Program:
    command = [PYTHON, "-u", *replica.arguments, "--port", str(options.examples_port + replica.offset)]
    if replica.fleet == "tiny-llm":
        command += ["--models", str(data / "models")]
    name = example_program(replica.fleet, replica.name)
    return Program(name, command, Group.BASE, stop_s=1, nice=EXAMPLES_NICE, outlives=True)


def example_program(fleet: str, replica: str) -> str:
    """The name of the program that is this example replica."""
    return f"{fleet}-{replica}"


def control_plane(options: UpOptions) -> list[Program]:
    celery = [PYTHON, "-m", "celery", "--quiet", "-A", "controlplane.celery"]
    worker = [*celery, "worker", "--pool", "threads", "--concurrency", "8", "--loglevel", "warning"]
    worker += ["--without-gossip", "--without-mingle", "--without-heartbeat"]
    beat = [*celery, "beat", "--loglevel", "warning", "--pidfile="]
    web = [PYTHON, "-m", "uvicorn", "controlplane.asgi:application", "--host", options.host]
    web += ["--port", str(options.port), "--timeout-graceful-shutdown", "1", *WEB_OPTIONS]
    conductor = [PYTHON, "-u", "manage.py", "conductor"]
    port = options.first_metrics_port
    return [
        Program("web", web, Group.FRONT, metrics_port=port),
        Program("worker", worker, Group.FRONT, metrics_port=port + 1),
        Program("beat", beat, Group.FRONT, stop_s=1, metrics_port=port + 2),
        Program("conductor", conductor, Group.FRONT, metrics_port=port + 3),
    ]


def proxy_command(options: UpOptions, data: Path) -> list[str]:
    return [
        *(PYTHON, "-u", "-m", "routing", "--redis", "env:SWITCHYARD_REDIS_URL"),
        *("--listen", f"127.0.0.1:{options.proxy_port}", "--admin", f"127.0.0.1:{options.admin_port}"),
        *("--workers", str(options.workers), "--state-dir", str(data / "proxy")),
        *("--drain-seconds", str(DRAIN_S), "--min-drain-seconds", "0"),
    ]


def ports(options: UpOptions) -> list[PortUse]:
    """Every port that these options use."""
    uses = [
        PortUse(options.port, options.host, "the dashboard", "--port", "web"),
        PortUse(options.proxy_port, "127.0.0.1", "the proxy", "--proxy-port", "proxy"),
        PortUse(options.admin_port, "127.0.0.1", "the proxy's admin listener", "--admin-port", "proxy"),
    ]
    for offset, name in enumerate(("the dashboard", "the Celery worker", "beat", "the conductor")):
        port = options.first_metrics_port + offset
        uses.append(PortUse(port, "127.0.0.1", f"the metrics listener of {name}", "--metrics-port"))
    if options.examples:
        for replica in TINY_LLM + DIGITS:
            purpose = f"the example replica {replica.fleet}/{replica.name}"
            port = options.examples_port + replica.offset
            program = example_program(replica.fleet, replica.name)
            uses.append(PortUse(port, "127.0.0.1", purpose, "--examples-port", program))
    return uses
