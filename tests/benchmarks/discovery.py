"""How soon a replica that registers itself gets requests through every proxy worker.

    .venv/bin/python -m tests.benchmarks.discovery --rounds 20

Starts all that ``make up`` starts, with a fleet that has a source of leases and no replica. In each round a
server that is ready registers, and CONNECTIONS kept connections, spread over the workers by the kernel, ask
for it again and again. The clock starts before the ``PUT`` of the lease is sent. Printed: until it was
answered, until the first and the last of the connections had an answer from the server, and the bar of 1.2
probe periods and 200 ms. More rounds register servers that are not ready, and start the clock when they are.
"""

import argparse
import http.client
import http.server
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.proxy_process import until
from tests.system.stack import Stack

CONNECTIONS = 16
WORKERS = 2
PERIOD_S = 2.0
EVERY_S = 0.005
LIMIT_S = 30.0


class ModelServer(http.server.ThreadingHTTPServer):
    ready = True
    daemon_threads = True
    request_queue_size = 256


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        assert isinstance(self.server, ModelServer)
        self.send_response(200 if self.server.ready else 503)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_: Any) -> None:
        return


@contextmanager
def serving() -> Iterator[ModelServer]:
    with ModelServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


class Took(NamedTuple):
    """Milliseconds from the start of the clock."""

    put: float
    first: float
    last: float


def first_answers(stack: Stack, name: str) -> list[float]:
    """When each connection had its first answer from the server, monotonic."""
    answered: list[float] = []

    def ask() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", stack.proxy_port, timeout=10)
        ends = time.monotonic() + LIMIT_S
        while time.monotonic() < ends:
            connection.request("GET", "/fleets/bench/x")
            answer = connection.getresponse()
            answer.read()
            if answer.status == 200 and answer.headers["x-switchyard-replica"] == name:
                answered.append(time.monotonic())
                break
            time.sleep(EVERY_S)
        connection.close()

    threads = [threading.Thread(target=ask, daemon=True) for _ in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answered


def round_of(stack: Stack, number: int, rng: random.Random, *, ready_first: bool) -> Took:
    name, lease = f"r{number}", f"/fleets/bench/sources/self/leases/r{number}"
    with serving() as server:
        body = {"url": f"http://127.0.0.1:{server.server_address[1]}"}
        server.ready = ready_first
        put_s = 0.0
        if not ready_first:
            stack.api("PUT", lease, body)
            until(lambda: health(stack, name) == "checking", "it is registered", LIMIT_S)
            time.sleep(PERIOD_S + rng.uniform(0, PERIOD_S))
        times: list[float] = []
        waiting = threading.Thread(target=lambda: times.extend(first_answers(stack, name)), daemon=True)
        waiting.start()
        time.sleep(0.3)
        began = time.monotonic()
        if ready_first:
            stack.api("PUT", lease, body)
            put_s = time.monotonic() - began
        else:
            server.ready = True
        waiting.join()
        assert len(times) == CONNECTIONS, "not every connection had an answer"
        took = Took(put_s * 1000, (min(times) - began) * 1000, (max(times) - began) * 1000)
        stack.api("DELETE", lease)
        server.ready = False
    until(lambda: not stack.api("GET", "/fleets/bench/replicas")["results"], "it is gone", 60)
    return took


def health(stack: Stack, name: str) -> str:
    rows = stack.api("GET", "/fleets/bench/replicas")["results"]
    return next((row["health"]["state"] for row in rows if row["name"] == name), "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sy-", dir="/tmp") as folder:
        stack = Stack(Path(folder), "--no-client", "--no-examples", "--workers", str(WORKERS))
        try:
            stack.wait_until_up()
            probe = {"path": "/health", "period_s": PERIOD_S}
            fleet = {"name": "bench", "protocol": "generic", "expose": "all", "probe": probe}
            stack.api("POST", "/fleets", fleet)
            source = {"name": "self", "lease": {"allow": ["127.0.0.0/8"]}}
            stack.api("POST", "/fleets/bench/sources", source)
            rng = random.Random(1)
            for words, ready_first in (("ready, then registered", True), ("registered, then ready", False)):
                rounds = [
                    round_of(stack, number + 1000 * ready_first, rng, ready_first=ready_first)
                    for number in range(options.rounds)
                ]
                report(words, rounds)
        finally:
            stack.stop()


def report(words: str, rounds: list[Took]) -> None:
    bar = 1.2 * PERIOD_S * 1000 + 200
    print(f"{words}: {len(rounds)} rounds, {CONNECTIONS} connections, {WORKERS} workers; bar {bar:.0f} ms")
    for field in Took._fields:
        values = sorted(getattr(took, field) for took in rounds)
        print(f"  {field}: median {statistics.median(values):.0f} ms, worst {values[-1]:.0f} ms")


if __name__ == "__main__":
    main()
