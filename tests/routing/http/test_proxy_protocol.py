"""Headers of the PROXY protocol: what is one, whose address it gives, and what is refused."""

import struct
from ipaddress import IPv6Address

import pytest

from routing.http.proxy_protocol import BadProxyHeader, read_proxy_header

SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
V4 = bytes([192, 0, 2, 7, 10, 0, 0, 1]) + struct.pack("!HH", 4711, 8080)
V6 = IPv6Address("2001:db8::7").packed + IPv6Address("fd00::1").packed + struct.pack("!HH", 1, 2)


def block(command: int = 0x21, kind: int = 0x11, body: bytes = V4, length: int | None = None) -> bytes:
    return SIGNATURE + struct.pack("!BBH", command, kind, len(body) if length is None else length) + body


@pytest.mark.parametrize(
    ("header", "source"),
    [
        (b"PROXY TCP4 192.0.2.7 10.0.0.1 4711 8080\r\n", "192.0.2.7"),
        (b"PROXY TCP6 2001:db8::7 fd00::1 4711 8080\r\n", "2001:db8::7"),
        (b"PROXY TCP6 ::ffff:192.0.2.7 fd00::1 4711 8080\r\n", "192.0.2.7"),
        (b"PROXY UNKNOWN\r\n", ""),
        (b"PROXY UNKNOWN ffff::1 ffff::2 65535 65535\r\n", ""),
        (block(), "192.0.2.7"),
        (block(kind=0x21, body=V6), "2001:db8::7"),
        (block(kind=0x11, body=V4 + b"\x04\x00\x02ab"), "192.0.2.7"),
        (block(kind=0x31, body=bytes(216)), ""),
        (block(kind=0, body=b""), ""),
        (block(command=0x20, kind=0, body=b""), ""),
        (block(command=0x20, kind=0x11), ""),
    ],
)
def test_a_header_is_read_to_its_last_byte_and_no_further(header: bytes, source: str) -> None:
    for size in range(len(header)):
        assert read_proxy_header(header[:size]) is None
    for rest in (b"", b"GET / HTTP/1.1\r\n"):
        read = read_proxy_header(header + rest)
        assert read is not None
        assert (read.source, read.size) == (source, len(header))


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01",
        b"PROXY TCP4 192.0.2.7 10.0.0.1 4711\r\n",
        b"PROXY TCP4 192.0.2.7  10.0.0.1 4711 8080\r\n",
        b"PROXY TCP4 192.0.2.7 10.0.0.1 4711 8080 \r\n",
        b"PROXY TCP4 192.0.2.7 10.0.0.1 04711 8080\r\n",
        b"PROXY TCP4 192.0.2.7 10.0.0.1 4711 65536\r\n",
        b"PROXY TCP4 192.0.2.700 10.0.0.1 4711 8080\r\n",
        b"PROXY TCP4 2001:db8::7 fd00::1 4711 8080\r\n",
        b"PROXY TCP6 192.0.2.7 10.0.0.1 4711 8080\r\n",
        b"PROXY TCP4 192.0.2.7\n10.0.0.1 4711 8080\r\n",
        b"PROXY UDP4 192.0.2.7 10.0.0.1 4711 8080\r\n",
        b"proxy TCP4 192.0.2.7 10.0.0.1 4711 8080\r\n",
        b"PROXY UNKNOWN " + b"x" * 100,
        block(command=0x11),
        block(command=0x22),
        block(kind=0x12),
        block(kind=0x41),
        block(body=V4[:-1]),
        block(kind=0x21, body=V4),
        block(length=4097),
    ],
)
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(BadProxyHeader):
        read_proxy_header(data)
