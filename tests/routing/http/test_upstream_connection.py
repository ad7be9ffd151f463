"""Upstream connection: a response head that arrives in pieces."""

from types import SimpleNamespace
from typing import Any

import pytest

from routing.http.response_head import MAX_RESPONSE_HEAD, ResponseHead
from routing.http.upstream_connection import UpstreamConnection


class Handler:
    """Notes what it hears."""

    asks_for_web_socket = False

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def informational(self, head: ResponseHead) -> None:
        self.heard.append(head.status)

    def response(self, head: ResponseHead, body: bytes, complete: bool, now: float) -> None:
        self.heard.append((head.status, body, complete))

    def data(self, piece: bytes, complete: bool, now: float) -> None:
        self.heard.append((piece, complete))

    def passthrough(self) -> None:
        pass

    def lost(self, reason: str, no_response_yet: bool) -> None:
        self.heard.append(reason)


def connection(handler: Handler) -> UpstreamConnection:
    """An open one whose request was sent."""

    def nothing(*values: object, **named: object) -> None:
        pass

    writes = SimpleNamespace(add=nothing)
    pool: Any = SimpleNamespace(
        authority=b"a", writes=writes, on_load_report=None, opened=nothing, closed=nothing, release=nothing
    )
    transport: Any = SimpleNamespace(set_write_buffer_limits=nothing, write=nothing, abort=nothing)
    upstream = UpstreamConnection(pool)
    upstream.connection_made(transport)
    upstream.send(handler, b"", False, False)  # type: ignore[arg-type]
    return upstream


HEAD = b"HTTP/1.1 200 OK\r\nDate: x\r\nX-Long: " + b"y" * 3000 + b"\r\nContent-Length: 2\r\n\r\n"


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
def test_a_head_in_pieces_of_every_size(size: int) -> None:
    handler = Handler()
    upstream = connection(handler)
    stream = b"HTTP/1.1 103 Early Hints\r\n\r\n" + HEAD + b"ok"
    for at in range(0, len(stream), size):
        upstream.data_received(stream[at : at + size])
    assert handler.heard[0] == 103
    assert handler.heard[1][0] == 200
    bodies = [heard[-2] for heard in handler.heard[1:]]
    assert b"".join(bodies) == b"ok"
    assert [heard[-1] for heard in handler.heard[1:]] == [False] * (len(bodies) - 1) + [True]


def test_what_has_come_of_a_head_is_not_copied_with_each_piece() -> None:
    upstream = connection(Handler())
    upstream.data_received(HEAD[:1])
    held = upstream._partial
    for at in range(1, len(HEAD) - 1):
        upstream.data_received(HEAD[at : at + 1])
        assert upstream._partial is held


def test_a_head_in_pieces_is_bounded() -> None:
    handler = Handler()
    upstream = connection(handler)
    upstream.data_received(b"HTTP/1.1 200 OK\r\nX: ")
    for _ in range(MAX_RESPONSE_HEAD // 1000 + 1):
        upstream.data_received(b"x" * 1000)
    assert handler.heard == ["the response head is too long"]
