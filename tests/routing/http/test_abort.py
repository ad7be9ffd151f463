"""Abortive close: a reset that is asked for meets the connection that it is meant for, and no other."""

import socket
import struct

import pytest

from routing.http.abort import abort_transport
from tests.fuzzing.wire import Transport


class OnSocket(Transport):
    """Of a socket that tells what was set on it."""

    def __init__(self, raw: socket.socket) -> None:
        super().__init__()
        self._raw = raw

    def get_extra_info(self, name: str, default: object = None) -> object:
        return self._raw if name == "socket" else default


@pytest.mark.parametrize("closing", [False, True])
def test_a_closing_transport_has_no_socket_of_its_own_any_more(closing: bool) -> None:
    """Its descriptor may be another connection's already."""
    with socket.socket() as raw:
        transport = OnSocket(raw)
        transport.ended = closing
        abort_transport(transport, reset=True)
        lingers, _ = struct.unpack("ii", raw.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8))
        assert bool(lingers) == (not closing)
        assert transport.aborted
