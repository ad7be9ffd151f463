"""A client connection fed by hand: whatever the cuts between segments, the host hears the same."""

import asyncio
import re
from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from routing.http.client_connection import ClientConnection
from routing.http.disconnect_watcher import DisconnectWatcher
from routing.http.errors import RequestRefused
from routing.http.interfaces import Client, Connection, RequestHandler
from routing.http.known_heads import KnownHeads
from routing.http.limits import BodyLimits, ConnectionLimits
from routing.http.local_response import response_bytes
from routing.http.read_turns import ReadTurns
from routing.http.request_head import RequestHead
from routing.http.timeout_sweeper import TimeoutSweeper
from routing.http.write_batch import WriteBatch


class Transport(asyncio.Transport):
    """Records what is written, and pretends a socket."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1)})
        self.written = b""
        self.ended = False

    def write(self, data: bytes) -> None:  # type: ignore[override]
        assert not self.ended
        self.written += data

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def write_eof(self) -> None:
        self.ended = True

    def close(self) -> None:
        self.ended = True

    def abort(self) -> None:
        self.ended = True

    def is_closing(self) -> bool:
        return self.ended


class Recorder:
    """A host whose exchanges answer once the whole request is there, and write down all they hear."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.limits = ConnectionLimits()
        self.head_timeout_s = 10.0
        self.body_limits = BodyLimits(1000, 25.0, 1024.0)
        self.sweeper = TimeoutSweeper(loop)
        self.disconnects = DisconnectWatcher(loop)
        self.writes = WriteBatch(loop)
        self.turns = ReadTurns(loop)
        self.known_heads = KnownHeads()
        self.acts: Counter[str] = Counter()
        self.draining = False
        self.heard: list[tuple[bytes, bytes, bytes]] = []
        self.refusals: list[int] = []

    def opened(self, client: Client) -> None: ...

    def on_half_head(self, client: Connection, size: int) -> None: ...

    def on_head(self, client: Connection) -> None: ...

    def on_pipelined(self, client: Connection, size: int) -> None: ...

    def on_untaken(self, client: Connection, size: int, since: float) -> None: ...

    def closed(self, client: Client) -> None: ...

    def exchange(self, client: Client, head: RequestHead) -> RequestHandler:
        return Recording(self, client, head)

    def refusal(self, error: RequestRefused, head_only: bool) -> bytes:
        self.refusals.append(error.status)
        return response_bytes(error.status, "text/plain", b"", close=True)


class Recording:
    def __init__(self, host: Recorder, client: Client, head: RequestHead) -> None:
        self.host, self.client, self.head = host, client, head
        self.content = b""
        self.allows_half_close = False

    def begin(self, body: bytes, complete: bool) -> None:
        self.body(body, complete)

    def body(self, piece: bytes, complete: bool) -> None:
        self.content += piece
        if complete:
            self.host.heard.append((self.head.target, self.head.fields, self.content))
            self.client.write(b"ok;")
            self.client.finish(0.0, self.head.keep_alive)

    def refuse(self, error: RequestRefused) -> None:
        self.host.refusals.append(error.status)
        self.client.write(b"refused;")
        self.client.finish(0.0, False)

    def client_gone(self) -> None: ...

    def client_paused(self, paused: bool) -> None: ...

    def check(self, now: float) -> None: ...


H = b"Host: a.test\r\n"
TE = b"Transfer-Encoding: chunked\r\n"
REQUESTS = [
    b"GET /get HTTP/1.1\r\n" + H + b"\r\n",
    b"\r\nGET /blank HTTP/1.1\r\n" + H + b"\r\n",
    b"POST /length HTTP/1.1\r\n" + H + b"Content-Length: 11\r\n\r\nhello\r\n\r\nyou",
    b"POST /length HTTP/1.1\r\n" + H + b"Content-Length: 11\r\n\r\nhello again",
    b"POST /chunks HTTP/1.1\r\n"
    + H
    + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1;a=b\r\n!\r\n0\r\n\r\n",
    b"POST /trailers HTTP/1.1\r\n" + H + b"Transfer-Encoding: chunked\r\n\r\n0\r\nA: 1\r\n\r\n",
    b"GET /close HTTP/1.1\r\n" + H + b"Connection: close\r\n\r\n",
    b"GET /old HTTP/1.0\r\n\r\n",
    b"GET /bad host HTTP/1.1\r\n\r\n",
    b"POST /large HTTP/1.1\r\n" + H + b"Content-Length: 1001\r\n\r\n",
    b"POST /bad HTTP/1.1\r\n" + H + TE + b"\r\n5\r\nhello!\r\n0\r\n\r\n",
    b"GET /lf HTTP/1.1\nHost: a.test\n\n",
]


def run(pieces: list[bytes]) -> tuple[list[tuple[bytes, bytes, bytes]], list[int], bytes, bool]:
    loop = asyncio.new_event_loop()
    try:
        host = Recorder(loop)
        client = ClientConnection(host)
        transport = Transport()
        client.connection_made(transport)
        for piece in pieces:
            if piece:
                client.data_received(piece)
        host.sweeper.discard(client)
        host.writes.flush()
        # Two runs that are compared may lie on either side of a full second.
        written = re.sub(rb"\r\nDate: [^\r]*", b"\r\nDate: now", transport.written)
        return host.heard, host.refusals, written, transport.ended
    finally:
        loop.close()


@given(
    st.lists(st.sampled_from(REQUESTS), min_size=1, max_size=6),
    st.lists(st.integers(0, 700), max_size=10),
)
def test_split_anywhere(requests: list[bytes], at: list[int]) -> None:
    data = b"".join(requests)
    places = [0, *sorted(place % (len(data) + 1) for place in at), len(data)]
    pieces = [data[a:b] for a, b in pairwise(places)]
    assert run(pieces) == run([data])


@given(st.lists(st.sampled_from(REQUESTS), min_size=1, max_size=3))
def test_one_byte_at_a_time(requests: list[bytes]) -> None:
    data = b"".join(requests)
    assert run([data[at : at + 1] for at in range(len(data))]) == run([data])


@given(st.lists(st.sampled_from(REQUESTS), min_size=1, max_size=6))
def test_one_request_per_segment(requests: list[bytes]) -> None:
    """Also where the same head comes again and is known already."""
    assert run(requests) == run([b"".join(requests)])


ID = b"X-Request-Id: "
LIKE = [
    b"POST /like HTTP/1.1\r\n" + H + ID + b"one\r\nContent-Length: 3\r\n\r\nabc",
    b"POST /like HTTP/1.1\r\n" + H + ID + b"two\r\nContent-Length: 3\r\n\r\ndef",
    b"POST /like HTTP/1.1\r\n" + H + ID + b"three\r\nContent-Length: 12\r\n\r\nGET / HTTP/1",
    b"POST /like HTTP/1.1\r\n" + H + ID + b"four\r\nContent-Length: 0\r\n\r\n",
    b"POST /like HTTP/1.1\r\n" + H + ID + b"five\r\nContent-Length: 1001\r\n\r\n",
    b"POST /like HTTP/1.1\r\n" + H + ID + b"six\r\nContent-Length: 3, 3\r\n\r\nabc",
    b"POST /like HTTP/1.1\r\n" + H + ID + b"7\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
    b"POST /like HTTP/1.1\r\n" + H + ID + b"8\r\n" + TE + b"Content-Length: 3\r\n\r\n0\r\n\r\n",
    b"POST /like HTTP/1.1\r\n" + H + ID + b"a b\r\nContent-Length: 3\r\n\r\nabc",
]


@given(st.lists(st.sampled_from(LIKE), min_size=3, max_size=8), st.booleans())
def test_like_requests_are_heard_as_on_connections_of_their_own(requests: list[bytes], apart: bool) -> None:
    """Templates are made from the second one on, and recognise the others: nothing else may change by it."""
    heard, refusals = [], []
    for request in requests:
        alone = run([request])
        heard += alone[0]
        refusals += alone[1]
        if alone[3]:
            break
    assert run(requests if apart else [b"".join(requests)])[:2] == (heard, refusals)


def test_large_head_in_small_pieces_is_refused_early() -> None:
    for filler, status in (
        (b"/" + b"a" * 100_000, 414),
        (b"/ HTTP/1.1\r\nHost: a.test\r\nA: " + b"b" * 100_000, 431),
    ):
        data = b"GET " + filler
        heard, refusals, written, ended = run([data[at : at + 1000] for at in range(0, len(data), 1000)])
        assert (heard, refusals, ended) == ([], [status], True)
        assert written.startswith(b"HTTP/1.1 %d " % status)
