"""How soon a replica hears that a client has left: ``python -m tests.benchmarks.leaving [--times 200]``.

A real proxy with one worker stands before a scripted replica in another process. The client leaves at each
stage of a request: by closing, by a reset, or by ending its own direction only (``shutdown``), which the
proxy takes for leaving as well. The clock starts before the client's call; it stops when FIN or RST has
reached the replica's socket, as the replica itself says. Where nothing was sent to a replica yet, it stops
when the proxy has given back its sockets.

A close, and so a FIN, waits behind bytes that the client's own kernel could not send yet. Such a client can
only be seen to go when it resets (``upload, held in its kernel``).

Afterwards the proxy must be as before: its sockets closed, idle without CPU, and able to take the largest
body that it searches, which it cannot while others' are still counted. There is no queue of requests in this
proxy yet, so nobody can leave one.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import platform
import socket
import statistics
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.benchmarks.processes import cpu_seconds
from tests.benchmarks.scripted import ScriptedReplica, scripted_replica
from tests.ports import unaccepting_port
from tests.proxy_process import Proxy

BAR_MS = 100.0
AT_ONCE = 8
"""So many clients stand ready before they leave, one after the other: making ready may take a while."""
SEARCHED = 1 << 20
"""Bytes of a body that is being searched when its client leaves."""
LARGEST_SEARCHED = 8 << 20
UPLOAD = 64 << 20
"""The largest body that a proxy takes at all."""
LIMIT_S = 5.0
SIOCOUTQNSD = 0x894B
"""From linux/sockios.h."""
NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY = 4, 20
UPGRADE = (
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)
FLEETS = """version: 1
fleets:
  - {{name: f, protocol: generic, default: true, policy: {{slow_start_s: 0}},
     replicas: [{{name: r, url: "http://127.0.0.1:{port}"}}]}}
  - {{name: chat, protocol: openai, replicas: [{{name: r, url: "http://127.0.0.1:{port}"}}]}}
  - {{name: unreachable, protocol: generic, policy: {{timeouts: {{connect_s: 30}}}},
     replicas: [{{name: r, url: "http://127.0.0.1:{nowhere}"}}]}}
"""


class Bench:
    """The proxy and its replica, and clients of it."""

    def __init__(self, proxy: Proxy, replica: ScriptedReplica) -> None:
        self.replica = replica
        self.port = proxy.port
        self.worker = proxy.workers()[0]
        self._numbers = iter(range(1 << 30))

    def number(self) -> int:
        return next(self._numbers)

    def connect(self) -> socket.socket:
        sock = socket.create_connection(("127.0.0.1", self.port), LIMIT_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock

    def sockets(self) -> int:
        """Open in the worker."""
        count = 0
        for name in os.listdir(f"/proc/{self.worker}/fd"):
            with contextlib.suppress(OSError):
                count += os.readlink(f"/proc/{self.worker}/fd/{name}").startswith("socket:")
        return count

    def wait_for_sockets(self, count: int) -> float | None:
        """When the worker had so many open, or fewer; ``None``: not in time."""
        end = time.monotonic() + 2.0
        while self.sockets() > count:
            if time.monotonic() > end:
                return None
        return time.monotonic()


Ready = tuple[socket.socket, int]
Stage = Callable[[Bench], Ready]
"""Brings a new client to where it will leave; the number is its request's."""


def send_head(bench: Bench, script: str, fields: str = "", method: str = "GET") -> Ready:
    sock, number = bench.connect(), bench.number()
    head = f"{method} /{script}/{number} HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n"
    sock.sendall(head.encode())
    return sock, number


def at_replica(bench: Bench, ready: Ready) -> Ready:
    assert bench.replica.when("request", ready[1]) is not None, "the request did not reach the replica"
    return ready


def waiting(bench: Bench) -> Ready:
    return at_replica(bench, send_head(bench, "hang"))


def read_until(sock: socket.socket, what: bytes) -> None:
    received = b""
    while what not in received:
        received += sock.recv(65_536)


def streaming(bench: Bench) -> Ready:
    ready = at_replica(bench, send_head(bench, "sse"))
    read_until(ready[0], b"one\n\n")
    return ready


def answering(bench: Bench) -> Ready:
    ready = at_replica(bench, send_head(bench, "length"))
    read_until(ready[0], bytes(1000))
    return ready


def uploading(bench: Bench) -> Ready:
    ready = send_head(bench, "hang", "Content-Length: 1000000\r\n", "POST")
    ready[0].sendall(bytes(1000))
    return at_replica(bench, ready)


def uploading_chunks(bench: Bench) -> Ready:
    ready = send_head(bench, "hang", "Transfer-Encoding: chunked\r\n", "POST")
    ready[0].sendall(b"5\r\nhello\r\n")
    return at_replica(bench, ready)


def answer_paused(bench: Bench) -> Ready:
    """Nothing is read of a large answer until the replica itself can write no more."""
    ready = at_replica(bench, send_head(bench, "flood"))
    assert bench.replica.when("stalled", ready[1], LIMIT_S) is not None, "the replica was not paused"
    return ready


def upload_paused(bench: Bench) -> Ready:
    """The replica reads nothing, so the proxy does not either, and all that was sent lies in its kernel."""
    ready = at_replica(bench, send_head(bench, "deaf", f"Content-Length: {UPLOAD}\r\n", "POST"))
    fill_proxy(ready[0])
    return ready


def upload_held(bench: Bench) -> Ready:
    """As before, but the client's own kernel could not send everything."""
    ready = at_replica(bench, send_head(bench, "deaf", f"Content-Length: {UPLOAD}\r\n", "POST"))
    fill_kernels(ready[0])
    return ready


def tunnel(bench: Bench) -> Ready:
    ready = at_replica(bench, send_head(bench, "ws", UPGRADE))
    read_until(ready[0], b"\r\n\r\n")
    return ready


def tunnel_down_paused(bench: Bench) -> Ready:
    ready = at_replica(bench, send_head(bench, "wsflood", UPGRADE))
    assert bench.replica.when("stalled", ready[1], LIMIT_S) is not None, "the replica was not paused"
    return ready


def tunnel_up_paused(bench: Bench) -> Ready:
    ready = at_replica(bench, send_head(bench, "wsdeaf", UPGRADE))
    read_until(ready[0], b"\r\n\r\n")
    fill_proxy(ready[0])
    return ready


def unsent(sock: socket.socket) -> int:
    """Bytes that wait in the client's own kernel, because the proxy's takes no more."""
    return int(struct.unpack("i", fcntl.ioctl(sock, SIOCOUTQNSD, bytes(4)))[0])


def unread_by_proxy(sock: socket.socket) -> int:
    """Bytes that lie in the proxy's kernel; asked of its socket diagnosis (linux/inet_diag.h)."""
    (ours_at, ours), (theirs_at, theirs) = sock.getsockname(), sock.getpeername()
    ends = struct.pack("!HH", theirs, ours) + b"".join(
        socket.inet_aton(address) + bytes(12) for address in (theirs_at, ours_at)
    )
    any_state, any_cookie = 0xFFFFFFFF, 0xFFFFFFFF
    asked = struct.pack("=BBBxI", socket.AF_INET, socket.IPPROTO_TCP, 0, any_state) + ends
    asked += struct.pack("=III", 0, any_cookie, any_cookie)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as netlink:
        netlink.send(struct.pack("=IHHII", 16 + len(asked), SOCK_DIAG_BY_FAMILY, 1, 0, 0) + asked)
        answer = netlink.recv(4096)
    assert struct.unpack_from("=H", answer, 4)[0] == SOCK_DIAG_BY_FAMILY, "the kernel does not tell"
    return int(struct.unpack_from("=I", answer, 72)[0])


def fill_proxy(sock: socket.socket) -> None:
    """Send until the proxy reads no more, and no further: the client's kernel keeps nothing back."""
    end = time.monotonic() + LIMIT_S
    sent_at = time.monotonic()
    while time.monotonic() - sent_at < 0.03:
        assert time.monotonic() < end, "the proxy did not stop reading"
        if not unread_by_proxy(sock):
            sock.sendall(bytes(16_384))
            sent_at = time.monotonic()
    assert not unsent(sock)


def fill_kernels(sock: socket.socket) -> None:
    """Send until nothing more is taken, and some of it cannot even leave."""
    sock.setblocking(False)
    moved_at = time.monotonic()
    while time.monotonic() - moved_at < 0.05 or not unsent(sock):
        try:
            sock.send(bytes(65_536))
            moved_at = time.monotonic()
        except BlockingIOError:
            time.sleep(0.001)


def searching(bench: Bench) -> Ready:
    """The model that the body names is still to come."""
    sock = bench.connect()
    body = b'{"prompt": "' + b"x" * SEARCHED
    head = b"POST /v1/completions HTTP/1.1\r\nHost: a.test\r\nContent-Length: %d\r\n\r\n"
    sock.sendall(head % (SEARCHED + 1000) + body)
    while unsent(sock) or unread_by_proxy(sock):
        time.sleep(0.0005)
    return sock, -1


def connecting(bench: Bench) -> Ready:
    """The replica does not answer the SYN."""
    before = bench.sockets()
    sock = bench.connect()
    sock.sendall(b"GET /fleets/unreachable/x HTTP/1.1\r\nHost: a.test\r\n\r\n")
    while bench.sockets() < before + 2:
        time.sleep(0.0005)
    return sock, -1


STAGES: dict[str, Stage] = {
    "before the head": waiting,
    "in an SSE answer": streaming,
    "in a Content-Length answer": answering,
    "uploading": uploading,
    "uploading, chunked": uploading_chunks,
    "searched in the body": searching,
    "connecting (SYN unanswered)": connecting,
    "answer paused": answer_paused,
    "upload paused": upload_paused,
    "upload, held in its kernel": upload_held,
    "tunnel": tunnel,
    "tunnel, down paused": tunnel_down_paused,
    "tunnel, up paused": tunnel_up_paused,
}
NOTHING_SENT = (searching, connecting)


def close(sock: socket.socket) -> None:
    sock.close()


def reset(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def half_close(sock: socket.socket) -> None:
    sock.shutdown(socket.SHUT_WR)


WAYS = {"close": close, "reset": reset, "shutdown": half_close}


def leave(bench: Bench, stage: Stage, way: Callable[[socket.socket], None], times: int) -> list[float | None]:
    """Milliseconds of each leaving; ``None``: never noticed."""
    took: list[float | None] = []
    at_once = 1 if stage in NOTHING_SENT else AT_ONCE
    base = bench.sockets()
    while len(took) < times:
        for sock, number in [stage(bench) for _ in range(min(at_once, times - len(took)))]:
            began = time.monotonic()
            way(sock)
            if stage in NOTHING_SENT:
                seen = bench.wait_for_sockets(base)
            else:
                seen = bench.replica.when("gone", number)
            took.append(None if seen is None else (seen - began) * 1000)
            reset(sock) if sock.fileno() >= 0 else None
    if stage in NOTHING_SENT:
        assert bench.replica.requests() == 0, "something was sent to a replica"
    return took


def largest_body_is_searched(bench: Bench) -> bool:
    """Whether a body of the largest size is served."""
    number = bench.number()
    body = b'{"model": "chat", "prompt": "' + b"x" * (LARGEST_SEARCHED - 1000) + b'"}'
    with bench.connect() as sock:
        head = b"POST /v1/small/%d HTTP/1.1\r\nHost: a.test\r\nContent-Length: %d\r\n\r\n"
        sock.sendall(head % (number, len(body)) + body)
        status = sock.recv(65_536)[9:12]
    return status == b"200"


def report(took: list[float | None], stage: str, way: str) -> bool:
    seen = [ms for ms in took if ms is not None]
    good = sum(ms <= BAR_MS for ms in seen)
    figures = f"{statistics.median(seen):9.2f} {max(seen):9.2f}" if seen else "        -         -"
    print(f"{stage:30}{way:10}{good:5} of {len(took):<5}{figures}", flush=True)
    return good == len(took)


@contextmanager
def bench() -> Iterator[Bench]:
    with contextlib.ExitStack() as stack:
        replica = stack.enter_context(scripted_replica())
        nowhere = stack.enter_context(unaccepting_port())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        fleets = folder / "fleets.yaml"
        fleets.write_text(FLEETS.format(port=replica.port, nowhere=nowhere))
        proxy = Proxy(folder, "--fleets", str(fleets), "--workers", "1")
        stack.callback(proxy.stop)
        yield Bench(proxy.ready(), replica)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--times", type=int, default=200, help="how often in each way")
    parser.add_argument("--stage", choices=STAGES, help="this one only")
    options = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}")
    print(f"{'leaves':30}{'by':10}{'≤ 100 ms':>13}{'median ms':>9} {'worst ms':>9}")
    missed = 0
    with bench() as rig:
        waiting(rig)[0].close()  # something to be warm
        base = rig.sockets() - 2
        for stage in [options.stage] if options.stage else STAGES:
            for way, action in WAYS.items():
                if stage == "upload, held in its kernel" and way != "reset":
                    continue
                missed += not report(leave(rig, STAGES[stage], action, options.times), stage, way)
        rig.wait_for_sockets(base)
        before = cpu_seconds([rig.worker])
        time.sleep(2.0)
        idle = (cpu_seconds([rig.worker]) - before) / 2.0
        print(f"sockets: {rig.sockets()} open, {base} before; idle CPU: {idle:.1%}")
        print(f"a body of {LARGEST_SEARCHED >> 20} MiB is searched: {largest_body_is_searched(rig)}")
    print(f"ways that missed {BAR_MS:g} ms: {missed}")


if __name__ == "__main__":
    main()
