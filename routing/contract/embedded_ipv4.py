"""IPv4-embedded IPv6 addresses: the IPv4 addresses to which a packet for an IPv6 one may be sent on.

By the system itself (IPv4-mapped), by a translator (NAT64, SIIT), or through a tunnel (6to4, Teredo). Pure.

Sources: RFC 4291 §2.5.5 (mapped, compatible), RFC 2765 (translated), RFC 6052 §2.2 (layouts of NAT64),
RFC 8215 (``64:ff9b:1::/48``), RFC 3056 (6to4), RFC 4380 §4 (Teredo).
"""

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address

Address = IPv4Address | IPv6Address

_LOW_32 = (1 << 32) - 1
_LOW_56 = (1 << 56) - 1
_COMPATIBLE = 0
_TRANSLATED = 0xFFFF_0000
_NAT64 = 0x0064_FF9B << 64
_LOW_96 = frozenset({_COMPATIBLE, _TRANSLATED, _NAT64})
"""Prefixes of 96 bits, before an IPv4 address."""
_LOCAL_NAT64 = 0x0064_FF9B_0001
_LOCAL_LAYOUTS = (48, 56, 64)
"""Lengths of the prefixes that a network may have made of it, in bits; besides 96."""
_6TO4 = 0x2002
_TEREDO = 0x2001_0000


def destinations(address: Address) -> list[Address]:
    """Where a packet for this address may end: there itself, and at the IPv4 addresses embedded in it. An
    IPv4-mapped address is another form of its IPv4 address, and stands for that alone."""
    if address.version == 4:
        return [address]
    if address.ipv4_mapped is not None:
        return [address.ipv4_mapped]
    return [address, *(IPv4Address(number) for number in _embedded(int(address)))]


def _embedded(number: int) -> Iterator[int]:
    if number >> 32 in _LOW_96 and number > 1:  # :: and ::1 are no IPv4 addresses
        yield number & _LOW_32
    elif number >> 80 == _LOCAL_NAT64:
        yield from _local_nat64(number)
    elif number >> 112 == _6TO4:
        yield number >> 80 & _LOW_32
    elif number >> 96 == _TEREDO:
        yield number >> 64 & _LOW_32  # the server
        yield ~number & _LOW_32  # the client


def _local_nat64(number: int) -> Iterator[int]:
    """By each layout, because which one a network uses is not known here. Bits 64 to 71 belong to none."""
    joined = (number >> 64) << 56 | number & _LOW_56
    found = [joined >> 120 - length - 32 & _LOW_32 for length in _LOCAL_LAYOUTS]
    # 0.x.y.z is the rest of an address in another layout.
    yield from (each for each in [number & _LOW_32, *found] if each >> 24)
