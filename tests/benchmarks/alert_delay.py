"""Alert delay: a fleet at 50 requests a second breaks its objective, then loses its replicas; when a webhook
is received.

``python -m tests.benchmarks.alert_delay`` starts all of Switchyard, two local responders and a receiver,
sends requests, makes the responders slow, later stops them, and says when the notifications came, and when
those of the end did. It says what it measured, and never passes or fails.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.controlplane.alerts.receivers import HttpReceiver, http_receiver
from tests.ports import free_ports
from tests.proxy_process import until
from tests.system.stack import Stack

RATE = 50
FLEET = "doomed"
SLOW_S = 0.3
SLO = {"latency_s": 0.1, "percentile": 99, "availability_percent": 99.9}
WELL_S = 75.0
"""How long all is well before the objective breaks: longer than the window of the rule that sees it first."""


class _Responder(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    slow_while = Path()
    """Requests are slow while this file is there; probes are not."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.slow_while.exists():
            time.sleep(SLOW_S)
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """Says nothing."""


class Load:
    """RATE requests a second, whether or not earlier ones have been answered."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._stopping = threading.Event()
        self.statuses: list[int] = []
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        due = time.monotonic()
        with ThreadPoolExecutor(64) as pool:
            while not self._stopping.is_set():
                pool.submit(self._ask)
                due += 1 / RATE
                self._stopping.wait(max(due - time.monotonic(), 0))

    def _ask(self) -> None:
        try:
            self.statuses.append(self._stack.ask(f"/fleets/{FLEET}/x", {}).status)
        except OSError:
            self.statuses.append(0)

    def stop(self) -> None:
        self._stopping.set()


def _serve(port: int, slow_while: Path) -> "subprocess.Popen[bytes]":
    """A process of its own: killed, it closes its connections too."""
    command = [sys.executable, "-m", "tests.benchmarks.alert_delay", str(port), str(slow_while)]
    return subprocess.Popen(command)


def measure(stack: Stack, receiver: HttpReceiver, folder: Path) -> None:
    ports, slow_while = free_ports(2), folder / "slow"
    servers = [_serve(port, slow_while) for port in ports]
    replicas = [{"name": f"r{port}", "url": f"http://127.0.0.1:{port}"} for port in ports]
    fleet = {"name": FLEET, "protocol": "generic", "replicas": replicas, "policy": {"slo": SLO}}
    stack.api("POST", "/fleets", {**fleet, "probe": {"preset": "http", "path": "/", "period_s": 2}})
    stack.api("POST", "/alerts/destinations", {"name": "pager", "kind": "webhook", "url": receiver.url})
    until(lambda: len(stack.eligible(FLEET)) == 2, "both are ready", 60)
    load = Load(stack)
    try:
        time.sleep(WELL_S)
        _show(stack)
        broken_s = _timed(slow_while.touch, receiver, "objective_burning", "firing")
        _show(stack)
        well_s = _timed(slow_while.unlink, receiver, "objective_burning", "resolved")
        before = len(load.statuses)
        gone_s = _timed(lambda: _end(servers), receiver, "no_eligible_replica", "firing")
        failed = sum(status != 200 for status in load.statuses[before:])
        servers = [_serve(port, slow_while) for port in ports]
        back_s = _timed(lambda: None, receiver, "no_eligible_replica", "resolved")
    finally:
        load.stop()
        _end(servers)
    print(f"{RATE} requests/s, {os.cpu_count()} CPUs")
    print(f"99 % within 0.1 s broken by all requests -> webhook received: {broken_s:.1f} s")
    print(f"fast again -> resolved received: {well_s:.1f} s")
    print(f"all replicas gone -> webhook received: {gone_s:.1f} s ({failed} requests failed meanwhile)")
    print(f"replicas back -> resolved received: {back_s:.1f} s; {len(receiver.got)} messages in all")


def _timed(cause: Callable[[], object], receiver: HttpReceiver, rule: str, status: str) -> float:
    """Seconds from the cause until such a message has come."""
    cause()
    began = time.monotonic()
    until(lambda: _told(receiver, rule, status), f"{rule}: {status}", 180)
    return time.monotonic() - began


def _told(receiver: HttpReceiver, rule: str, status: str) -> bool:
    said = [one.json for one in receiver.got]
    return any(one["rule"] == rule and one["status"] == status for one in said)


def _show(stack: Stack) -> None:
    for one in stack.api("GET", f"/fleets/{FLEET}/objectives")["objectives"]:
        told = {name: one[name] for name in ("requests", "bad", "attained_percent", "burn", "burning")}
        print(one["words"], told)


def _end(servers: "list[subprocess.Popen[bytes]]") -> None:
    for server in servers:
        server.kill()
        server.wait()


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="sy-", dir="/tmp"))
    stack = Stack(folder, "--no-examples")
    try:
        stack.wait_until_up()
        with http_receiver() as receiver:
            measure(stack, receiver, folder)
    finally:
        stack.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        _Responder.slow_while = Path(sys.argv[2])
        ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), _Responder).serve_forever()
    main()
