"""Whole proxies for tests: real proxy processes, scripted replicas on real sockets, a publisher."""

import contextlib
import http.client
import json
import os
import re
import resource
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeVar

import redis

from routing.contract import redis_keys, snapshot_chunks
from routing.contract.policy import Policy
from routing.contract.table import FleetSnapshot, Manifest, ReplicaSpec, encode
from routing.contract.telemetry import Acknowledgement, decode_acknowledgement
from tests.keeper import having_in_environment
from tests.ports import free_port as free_port

ROOT = Path(__file__).parents[1]
LIMIT_S = 40.0
MARK = "PROXY_OF_A_TEST"
"""In the environment of a proxy's processes."""
T = TypeVar("T")


def until(condition: Callable[[], T], what: str, limit_s: float = LIMIT_S) -> T:
    """Wait until the condition gives something true, and return that."""
    end = time.monotonic() + limit_s
    while True:
        result = condition()
        if result:
            return result
        assert time.monotonic() < end, f"{what}: not within {limit_s:g} s"
        time.sleep(0.01)


class Replica:
    """A scripted model server. ``/stream`` sends one piece, waits for ``release``, sends the last; ``/slow``
    waits for a moment only."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.served = 0
        self.probed = 0
        self.health_status = 200
        self.body = name.encode()
        self.authorizations: list[str | None] = []
        """Of every request and probe."""
        self.release = threading.Event()
        self.streaming = threading.Event()
        """Set while an answer is half sent."""
        replica = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                replica.answer(self)

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                replica.answer(self)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: Any, client_address: Any) -> None:
                """A proxy that is killed cuts its connections; nothing to print."""

        self._server = Server(("127.0.0.1", free_port()), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        self.authorizations.append(handler.headers.get("Authorization"))
        if handler.path == "/health":
            self.probed += 1
            self._send(handler, self.health_status, b"{}")
        elif handler.path.endswith("/stream"):
            self.served += 1
            self._stream(handler, lambda: self.release.wait(LIMIT_S))
        elif handler.path.endswith("/slow"):
            self.served += 1
            self._stream(handler, lambda: time.sleep(0.15))
        else:
            self.served += 1
            self._send(handler, 200, self.body)

    def _send(self, handler: BaseHTTPRequestHandler, status: int, body: bytes) -> None:
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    def _stream(self, handler: BaseHTTPRequestHandler, wait: Callable[[], object]) -> None:
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        handler.wfile.write(b"5\r\nfirst\r\n")
        handler.wfile.flush()
        self.streaming.set()
        wait()
        handler.wfile.write(b"4\r\nlast\r\n0\r\n\r\n")

    def stop(self) -> None:
        self.release.set()
        self._server.shutdown()
        self._server.server_close()


class Proxy:
    """``python -m routing`` on ports that the kernel chooses."""

    def __init__(
        self,
        directory: Path,
        *arguments: str,
        listen: str = "127.0.0.1:0",
        descriptors: int | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """``descriptors``: as many as each process may have. ``environment``: in addition to ours."""
        self.log_file = directory / f"proxy-{time.monotonic_ns()}.log"
        self._mark = secrets.token_hex(8)
        command = [sys.executable, "-m", "routing", "--listen", listen, "--admin", "127.0.0.1:0", *arguments]
        with self.log_file.open("wb") as log:
            self.process = subprocess.Popen(
                command,
                cwd=ROOT,
                stderr=log,
                stdout=log,
                env={**os.environ, **(environment or {}), MARK: self._mark},
            )
        if descriptors is not None:
            # Before its imports are done, and long before it starts a worker.
            resource.prlimit(self.process.pid, resource.RLIMIT_NOFILE, (descriptors, descriptors))

    @property
    def log(self) -> str:
        return self.log_file.read_text()

    @property
    def port(self) -> int:
        return self._port("listening on")

    @property
    def admin_port(self) -> int:
        return self._port("admin listener on")

    def _port(self, words: str) -> int:
        def logged() -> re.Match[str] | None:
            assert self.process.poll() is None, self.log
            return re.search(rf"{words} 127\.0\.0\.1:(\d+)", self.log)

        return int(until(logged, "the proxy listens")[1])

    def ready(self) -> "Proxy":
        said = ""

        def is_ready() -> bool:
            nonlocal said
            status, said = self.admin("/readyz")
            return status == 200

        try:
            until(is_ready, "the proxy is ready")
        except AssertionError:
            raise AssertionError(f"the proxy is not ready: {said}\n{self.log}") from None
        return self

    def admin(self, path: str, method: str = "GET", headers: dict[str, str] | None = None) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.admin_port, timeout=LIMIT_S)
        try:
            connection.request(method, path, headers=headers or {})
            response = connection.getresponse()
            return response.status, response.read().decode()
        except TimeoutError:
            raise TimeoutError(f"{method} {path} at the admin listener: no response\n{self.log}") from None
        finally:
            connection.close()

    def status(self) -> dict[str, Any]:
        result: dict[str, Any] = json.loads(self.admin("/status")[1])
        return result

    def workers(self) -> list[int]:
        """Process ids of the workers that serve."""
        return [row["pid"] for row in self.status()["workers"] if row["serving"]]

    def replicas(self, fleet: str) -> dict[str, dict[str, Any]]:
        return {row["replica"]: row for row in self.status()["fleets"][fleet]["replicas"]}

    def client(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT_S)

    def get(self, path: str = "/") -> tuple[int, str]:
        """One request on a connection of its own."""
        connection = self.client()
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    def signal(self, number: int = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    def exit_status(self, limit_s: float = LIMIT_S) -> int:
        return self.process.wait(limit_s)

    def kill(self) -> None:
        """The master alone; its workers serve on."""
        self.process.kill()
        self.process.wait()

    def processes(self) -> list[int]:
        """The master, its workers and their successors, also when they have outlived it."""
        return having_in_environment(MARK, self._mark)

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()


class Load:
    """A client that asks again and again, each time on a fresh connection, until told to stop."""

    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy
        self.answers: list[tuple[int, str]] = []
        self.failures: list[Exception] = []
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)

    def __enter__(self) -> "Load":
        self._port = self._proxy.port
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        self._thread.join(LIMIT_S)

    def more(self, count: int = 20) -> None:
        """Wait for so many further answers."""
        target = len(self.answers) + count
        until(lambda: len(self.answers) >= target or self.failures, "requests are answered")

    def _ask(self) -> None:
        while not self._enough.is_set():
            connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=LIMIT_S)
            try:
                connection.request("GET", "/")
                response = connection.getresponse()
                self.answers.append((response.status, response.read().decode()))
            except Exception as problem:
                self.failures.append(problem)
            finally:
                connection.close()


def fleet_file(path: Path, replicas: Sequence[Replica], /, **fleet: Any) -> Path:
    """Write a fleet file with one generic default fleet named ``echo``; replaces the file as a whole."""
    entry = {
        "name": "echo",
        "protocol": "generic",
        "default": True,
        "policy": {"strategy": "round_robin", "slow_start_s": 0},
        "replicas": [{"name": replica.name, "url": replica.url} for replica in replicas],
        **fleet,
    }
    # JSON is YAML.
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps({"version": 1, "fleets": [entry]}))
    temporary.replace(path)
    return path


def snapshot(version: int, replicas: Sequence[Replica], /, epoch: int = 1, **fields: Any) -> FleetSnapshot:
    fleet = fields.get("name", "echo")
    specs = [ReplicaSpec(uid=f"{fleet}/{one.name}", name=one.name, url=one.url) for one in replicas]
    policy = Policy(strategy="round_robin", slow_start_s=0)
    values = {"name": "echo", "protocol": "generic", "revision": 1, "policy": policy, "replicas": specs}
    return FleetSnapshot(epoch=epoch, version=version, **{**values, **fields})


class Publisher:
    """The control plane's side of Redis, by the contract's own scripts."""

    def __init__(self, client: "redis.Redis") -> None:
        self.client = client
        self.installation = "tests"
        """That Redis is bound to; a table names one only if it is told to."""

    def manifest(self, version: int, epoch: int = 1, **fields: Any) -> None:
        values: dict[str, Any] = {"fleets": {"echo": version}, "default": "echo"}
        manifest = Manifest(epoch=epoch, version=version, **{**values, **fields})
        self._store(redis_keys.MANIFEST, manifest, "*")

    def fleet(self, table: FleetSnapshot) -> None:
        self._store(redis_keys.fleet_key(table.name), table, table.name)

    def _store(self, key: str, table: Manifest | FleetSnapshot, announcement: str) -> None:
        ours = (self.installation, "instance")
        self.client.eval(
            redis_keys.HOLD_INSTALLATION, 1, redis_keys.INSTALLATION, *ours, table.epoch, "", "take", ""
        )
        if isinstance(table, FleetSnapshot):
            body, chunks = snapshot_chunks.stored_arguments(table)
        else:
            body, chunks = encode(table), []
        arguments = (table.epoch, table.version, body, redis_keys.CHANGES_CHANNEL, announcement)
        keys = (key, redis_keys.INSTALLATION)
        self.client.eval(redis_keys.STORE_IF_NEWER, 2, *keys, *arguments, *ours, "", *chunks)

    def acks(self, fleet: str = "echo") -> dict[str, Acknowledgement]:
        """Worker → its acknowledgement of a fleet's table."""
        stored = self.client.hgetall(redis_keys.fleet_acks_key(fleet))
        return {worker.decode(): decode_acknowledgement(ack) for worker, ack in stored.items()}

    def applied(self, version: str, workers: int, fleet: str = "echo") -> bool:
        acks = self.acks(fleet).values()
        return len(acks) == workers and all(ack.applied == version for ack in acks)

    def reported(self) -> list[dict[str, Any]]:
        return [json.loads(report) for report in self.client.hvals(redis_keys.REPORTS)]
