"""PROXY protocol, versions 1 and 2: a load balancer says before the first byte whose connection it passes on.

Theory. The header stands before everything else, also before TLS. A connection of a listener that expects one
begins with it or is closed, because whoever could leave it out could as well write it. When it is complete,
the layer gives the transport to the connection's own protocol and is gone.

Source: the PROXY protocol specification of HAProxy (doc/proxy-protocol.txt, 2020-03-05), §2.1 and §2.2.
"""

from __future__ import annotations

import asyncio
import logging
import re
import struct
from ipaddress import IPv4Address, IPv6Address
from time import monotonic
from typing import NamedTuple, Protocol

from routing.http.handshake import Handshake, HandshakeHost
from routing.http.interfaces import Connection
from routing.http.peer_address import peer_address

log = logging.getLogger(__name__)

_LONGEST_LINE = 107
"""Bytes of a header of version 1, its line end included."""
_LONGEST_BLOCK = 4096
"""Bytes after the fixed part of version 2: addresses, and fields of which none is needed here."""
_SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
_FIXED = struct.Struct("!12sBBH")
_PORT = rb"(?:0|[1-9][0-9]{0,4})"
_LINE = re.compile(
    rb"PROXY (?:UNKNOWN(?: [^\r\n]*+)?|(TCP4|TCP6) ([0-9A-Fa-f:.]++) ([0-9A-Fa-f:.]++) (%b) (%b))\r\n"
    % (_PORT, _PORT)
)
_LOCAL, _PROXIED = 0x20, 0x21
_UNSPECIFIED, _INET, _INET6, _UNIX = range(4)
_ADDRESS_BYTES = {_UNSPECIFIED: 0, _INET: 12, _INET6: 36, _UNIX: 216}
"""Of a family's pair of addresses, ports included."""
_DATAGRAM = 2


class BadProxyHeader(Exception):
    """What came is no header of either version; the message says why."""


class ProxyHeader(NamedTuple):
    source: str
    """The client's address; empty: the load balancer speaks for itself, or does not know."""
    size: int
    """Bytes of the header."""


def read_proxy_header(data: bytes) -> ProxyHeader | None:
    """The header that ``data`` begins with; ``None``: it is not complete. Raises :class:`BadProxyHeader`."""
    if data.startswith(_SIGNATURE[: len(data)]):
        return _read_block(data)
    if data.startswith(b"PROXY "[: len(data)]):
        return _read_line(data)
    raise BadProxyHeader("the connection does not begin with one")


def _read_line(data: bytes) -> ProxyHeader | None:
    end = data.find(b"\r\n", 0, _LONGEST_LINE)
    if end < 0:
        if len(data) >= _LONGEST_LINE:
            raise BadProxyHeader(f"its line is longer than {_LONGEST_LINE} bytes")
        return None
    matched = _LINE.fullmatch(data, 0, end + 2)
    if matched is None:
        raise BadProxyHeader("its line is not that of version 1")
    family, source, destination, *ports = matched.groups()
    if family is None:
        return ProxyHeader("", end + 2)
    kind = IPv4Address if family == b"TCP4" else IPv6Address
    try:
        address, _ = kind(source.decode()), kind(destination.decode())
    except ValueError:
        raise BadProxyHeader(f"an address in it is not one of {family.decode()}") from None
    if any(int(port) > 65535 for port in ports):
        raise BadProxyHeader("a port in it is above 65535")
    return ProxyHeader(_text(address), end + 2)


def _read_block(data: bytes) -> ProxyHeader | None:
    if len(data) < _FIXED.size:
        return None
    _, command, kind, length = _FIXED.unpack_from(data)
    family, transport = kind >> 4, kind & 15
    if command not in (_LOCAL, _PROXIED):
        raise BadProxyHeader("its version is not 2, or its command is not known")
    if family not in _ADDRESS_BYTES or transport >= _DATAGRAM:
        raise BadProxyHeader("its address family or transport is not one of a stream")
    if length > _LONGEST_BLOCK:
        raise BadProxyHeader(f"it is longer than {_LONGEST_BLOCK} bytes")
    if command == _PROXIED and length < _ADDRESS_BYTES[family]:
        raise BadProxyHeader("it is shorter than its addresses")
    size = _FIXED.size + length
    if len(data) < size:
        return None
    if command == _PROXIED and family == _INET:
        return ProxyHeader(str(IPv4Address(data[16:20])), size)
    if command == _PROXIED and family == _INET6:
        return ProxyHeader(_text(IPv6Address(data[16:32])), size)
    return ProxyHeader("", size)


def _text(address: IPv4Address | IPv6Address) -> str:
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)


class ProxyProtocolHost(HandshakeHost, Protocol):
    """What the layer needs of the acceptor. Crosses a layer: the proxy is one."""

    def behind_proxy_protocol(self, peer: str, source: str) -> asyncio.Protocol:
        """The connection's own protocol. ``peer``: who has connected. ``source``: what the header says."""
        ...

    def on_proxy_header_begin(self, connection: Connection, peer: str) -> None:
        """A header is to come. ``peer``: as below."""


class ProxyProtocolLayer(Handshake, asyncio.Protocol):
    """Reads the header of one connection."""

    __slots__ = ("_data", "_host", "_since", "_socket", "deadline")

    _host: ProxyProtocolHost

    def __init__(self, host: ProxyProtocolHost) -> None:
        self._host = host
        self._socket = None  # type: ignore[assignment]
        self._data = b""
        self.deadline = self._since = 0.0

    # Called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = transport  # type: ignore[assignment]
        self._since = monotonic()
        self._host.sweeper.add(self)
        self._host.on_proxy_header_begin(self, self._peer)

    def data_received(self, data: bytes) -> None:
        self._host.handshakes.add(self)
        self._data += data
        try:
            header = read_proxy_header(self._data)
        except BadProxyHeader as problem:
            log.debug("closed: no PROXY protocol header of %s: %s", self._peer, problem)
            self._socket.abort()
            return
        if header is None:
            self._host.on_half_head(self, len(data))
            return
        self._leave()
        above = self._host.behind_proxy_protocol(self._peer, header.source)
        self._host.on_handshake_done(self)
        transport, rest = self._socket, self._data[header.size :]
        transport.set_protocol(above)
        above.connection_made(transport)
        if rest:
            above.data_received(rest)

    def connection_lost(self, exc: Exception | None) -> None:
        self._leave()
        self._host.on_layer_close(self)

    @property
    def _peer(self) -> str:
        return peer_address(self._socket)
