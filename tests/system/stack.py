"""All of Switchyard as ``make up`` starts it, on free ports and a folder of its own; and its client."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

from controlplane.supervision import state_file
from controlplane.supervision.processes import descendants, started_on
from tests.ports import free_ports
from tests.proxy_process import LIMIT_S, ROOT, until

START_LIMIT_S = 170.0
EXAMPLE_OFFSETS = (1, 2, 3, 4, 101, 102, 103)
METRICS_OFFSETS = (10, 11, 12, 13)


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def replica(self) -> str:
        return self.headers.get("x-switchyard-replica", "")


class Stack:
    """One running ``manage.py up``. ``said`` is all that it printed."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self.data = folder / "data"
        self.port, self.proxy_port, self.admin_port = free_ports(3)
        self.examples_port = free_examples_port()
        self.metrics_port = self.examples_port + METRICS_OFFSETS[0]
        self.environment = clean_environment(self.data)
        self.token = ""
        self.more_flags = flags
        self.start()

    def start(self) -> None:
        """Also again, after the end of the one before."""
        self.said = ""
        self.process = subprocess.Popen(
            [sys.executable, "manage.py", "up", *self.flags(), *self.more_flags],
            cwd=ROOT,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def flags(self) -> list[str]:
        return [
            *("--data-dir", str(self.data), "--port", str(self.port), "--proxy-port", str(self.proxy_port)),
            *("--admin-port", str(self.admin_port), "--examples-port", str(self.examples_port)),
            *("--metrics-port", str(self.metrics_port)),
        ]

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said += line

    def wait_until_up(self) -> None:
        try:
            until(self._is_up_or_over, "everything is up", START_LIMIT_S)
        except AssertionError as late:
            raise AssertionError(f"{late}: {self.said}") from None
        assert self.process.poll() is None, self.said
        command = [sys.executable, "manage.py", "createtoken", "admin", "system test"]
        made = subprocess.run(
            command, cwd=ROOT, env=self.environment, check=True, capture_output=True, text=True
        )
        self.token = made.stdout.strip()

    def _is_up_or_over(self) -> bool:
        return ("Ctrl-C stops it" in self.said and "curl -s" in self.said) or self.process.poll() is not None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def one_time_password(self) -> str:
        found = re.search(r"login +admin +one-time password: (\S+)", self.said)
        assert found, self.said
        return found[1]

    @property
    def authorization(self) -> dict[str, str]:
        return {"Authorization": f"Token {self.token}"}

    def api(self, method: str, path: str, body: object = None) -> Any:
        """What the REST API answers; anything but a success fails the test."""
        answer = exchange(self.port, method, f"/api/v1{path}", body, self.authorization)
        assert 200 <= answer.status < 300, answer
        return answer.json

    def ask(self, path: str, body: object = None, **headers: str) -> Answer:
        """One request through the proxy: a POST where there is a body."""
        return exchange(self.proxy_port, "GET" if body is None else "POST", path, body, headers)

    def eligible(self, fleet: str) -> set[str]:
        """Replicas that every proxy worker may pick, as the admin listener says."""
        status = exchange(self.admin_port, "GET", "/status").json
        workers = len(status["workers"])
        rows = status["fleets"][fleet]["replicas"]
        return {row["replica"] for row in rows if row["eligible_in_workers"] == workers}

    def pids(self, *words: str) -> list[int]:
        """Processes below ``up`` whose command line holds all these words."""
        found = {pid: command_line(pid) for pid in descendants(self.process.pid)}
        return [pid for pid, command in found.items() if all(word in command for word in words)]

    def open_ports(self) -> list[int]:
        ports = [self.port, self.proxy_port, self.admin_port]
        ports += [self.examples_port + offset for offset in EXAMPLE_OFFSETS + METRICS_OFFSETS]
        return [port for port in ports if is_open(port)]

    def sockets(self) -> list[Path]:
        return [path for path in self.data.rglob("*") if path.is_socket()]

    def stop(self) -> None:
        """For the end of a test run: whatever state it is in, nothing stays."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(15)
        below = descendants(self.process.pid)
        self.process.kill()
        self.process.wait()
        for pid in {
            *below,
            *(one.pid for one in state_file.read(self.data).running()),
            *started_on(self.data),
        }:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._reader.join(5)


class Traffic:
    """A few clients that ask the same over and over, of ``digits`` unless told otherwise."""

    class Seen(NamedTuple):
        started: float
        status: int
        replica: str
        said: str = ""
        """What was answered instead of a success."""
        retried: str = ""
        """Why other attempts were made, as the answer tells."""
        cut: bool = False
        """Its head came, and not all of its body."""

    def __init__(self, stack: Stack, path: str = "", body: object = None, clients: int = 3) -> None:
        self.stack = stack
        self.path = path or "/v2/models/digits/infer"
        self.body = body or one_digit()
        self.seen: list[Traffic.Seen] = []
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(clients)]

    def __enter__(self) -> "Traffic":
        for thread in self._threads:
            thread.start()
        until(lambda: len(self.seen) > 20, "traffic flows")
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(30)

    def _run(self) -> None:
        while not self._over.wait(0.01):
            started = time.monotonic()
            try:
                answer = self.stack.ask(self.path, self.body)
                said = "" if answer.status == 200 else answer.body.decode(errors="replace")
                retried = answer.headers.get("x-switchyard-retry-reason", "")
                seen = Traffic.Seen(started, answer.status, answer.replica, said, retried)
            except (OSError, http.client.HTTPException) as error:
                cut = isinstance(error, http.client.IncompleteRead)
                seen = Traffic.Seen(started, 0, "", repr(error), cut=cut)
            self.seen.append(seen)

    def since(self, moment: float) -> list["Traffic.Seen"]:
        """Answers to requests begun after ``moment``."""
        return [seen for seen in self.seen if seen.started > moment]

    def replicas(self, moment: float = 0.0) -> set[str]:
        """Which replicas answered requests begun after ``moment``, successfully."""
        return {seen.replica for seen in self.since(moment) if seen.status == 200}

    def failures(self) -> list["Traffic.Seen"]:
        return [seen for seen in self.seen if seen.status != 200]

    def failures_after_kill(self) -> list["Traffic.Seen"]:
        """Those that a proxy could have prevented when a replica was killed, once. Model servers send an
        answer's head and its body one after the other: killed between the two, each client may see a cut."""
        failures = self.failures()
        cut = [seen for seen in failures if seen.cut]
        return failures if len(cut) > len(self._threads) else [seen for seen in failures if not seen.cut]

    def wait_for(self, number: int, after: float) -> list["Traffic.Seen"]:
        """At least this many answers to requests begun after ``after``."""
        limit_s = LIMIT_S + number / 2
        until(lambda: len(self.since(after)) >= number, f"{number} more answers", limit_s)
        return self.since(after)


def one_digit() -> dict[str, Any]:
    tensor = {"name": "pixels", "shape": [1, 64], "datatype": "FP64", "data": [0.0] * 64}
    return {"inputs": [tensor]}


def exchange(
    port: int, method: str, path: str, body: object = None, headers: dict[str, str] | None = None
) -> Answer:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        content = None if body is None else json.dumps(body)
        connection.request(method, path, content, {"Content-Type": "application/json", **(headers or {})})
        response = connection.getresponse()
        received = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, received, response.read())


def clean_environment(data: Path) -> dict[str, str]:
    """This process's environment without what the test run's own settings put there."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SWITCHYARD_")}
    kept.pop("DJANGO_SETTINGS_MODULE", None)
    return {**kept, "SWITCHYARD_DATA_DIR": str(data), "PYTHONUNBUFFERED": "1"}


def free_examples_port() -> int:
    """A port below the range that the kernel gives to outgoing connections, with its followers free."""
    for base in range(20_000 + os.getpid() % 50 * 200, 32_000, 110):
        if not any(is_open(base + offset) for offset in EXAMPLE_OFFSETS + METRICS_OFFSETS):
            return base
    raise AssertionError("no free range of ports")


def is_open(port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


def command_line(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def is_running(pid: int) -> bool:
    """A zombie does not run."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    return False
