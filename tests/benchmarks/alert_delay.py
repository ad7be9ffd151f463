"""Alert delay: a fleet at 50 requests a second loses its replicas; after how long a webhook is received.

``python -m tests.benchmarks.alert_delay`` starts all of Switchyard, two local responders and a receiver,
sends requests, stops the responders and says when the notification came, and when that of the end did. It
says what it measured, and never passes or fails.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.controlplane.alerts.receivers import HttpReceiver, http_receiver
from tests.ports import free_ports
from tests.proxy_process import until
from tests.system.stack import Stack

RATE = 50
FLEET = "doomed"


class _Responder(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    do_GET = do_POST = _answer

    def log_message(self, *_: object) -> None:
        """Says nothing."""


def _serve(port: int) -> "subprocess.Popen[bytes]":
    """A process of its own: killed, it closes its connections too."""
    return subprocess.Popen([sys.executable, "-m", "tests.benchmarks.alert_delay", str(port)])


def _load(stack: Stack, stopping: threading.Event, statuses: list[int]) -> None:
    due = time.monotonic()
    while not stopping.is_set():
        try:
            statuses.append(stack.ask(f"/fleets/{FLEET}/x", {}).status)
        except OSError:
            statuses.append(0)
        due += 1 / RATE
        stopping.wait(max(due - time.monotonic(), 0))


def measure(stack: Stack, receiver: HttpReceiver) -> None:
    ports = free_ports(2)
    servers = [_serve(port) for port in ports]
    replicas = [{"name": f"r{port}", "url": f"http://127.0.0.1:{port}"} for port in ports]
    probe = {"preset": "http", "path": "/", "period_s": 2}
    stack.api("POST", "/fleets", {"name": FLEET, "protocol": "generic", "replicas": replicas, "probe": probe})
    stack.api("POST", "/alerts/destinations", {"name": "pager", "kind": "webhook", "url": receiver.url})
    until(lambda: len(stack.eligible(FLEET)) == 2, "both are ready", 60)
    stopping, statuses = threading.Event(), list[int]()
    threading.Thread(target=_load, args=(stack, stopping, statuses), daemon=True).start()
    time.sleep(5)
    before = len(statuses)
    for server in servers:
        server.kill()
        server.wait()
    broken = time.monotonic()
    until(lambda: _told(receiver, "firing"), "the webhook", 180)
    fired_s = time.monotonic() - broken
    failed = sum(status != 200 for status in statuses[before:])
    servers = [_serve(port) for port in ports]
    well = time.monotonic()
    until(lambda: _told(receiver, "resolved"), "its end", 180)
    ended_s = time.monotonic() - well
    stopping.set()
    for server in servers:
        server.kill()
        server.wait()
    print(f"rule no_eligible_replica (for 30 s, group wait 10 s), {RATE} requests/s, {os.cpu_count()} CPUs")
    print(f"all replicas gone -> webhook received: {fired_s:.1f} s ({failed} requests failed meanwhile)")
    print(f"replicas back -> resolved received: {ended_s:.1f} s; {len(receiver.got)} messages in all")


def _told(receiver: HttpReceiver, status: str) -> bool:
    said = [one.json for one in receiver.got]
    return any(one["rule"] == "no_eligible_replica" and one["status"] == status for one in said)


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="sy-", dir="/tmp"))
    stack = Stack(folder, "--no-examples")
    try:
        stack.wait_until_up()
        with http_receiver() as receiver:
            measure(stack, receiver)
    finally:
        stack.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), _Responder).serve_forever()
    main()
