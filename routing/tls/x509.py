"""Expiry of an X.509 certificate: until when it is valid, the one thing that is read of it here.

A certificate is nested tag, length and value (DER, ITU-T X.690 §8.1). Of its first part, RFC 5280 §4.1, the
fields up to the validity are stepped over: version (optional), serial number, signature, issuer.
"""

from datetime import UTC, datetime

_SEQUENCE, _INTEGER, _VERSION, _UTC_TIME, _GENERALIZED_TIME = 0x30, 0x02, 0xA0, 0x17, 0x18


def valid_until(der: bytes) -> float:
    """Unix seconds. Raises ValueError where the bytes are no certificate."""
    try:
        at = _inside(der, _inside(der, 0, _SEQUENCE), _SEQUENCE)
        if der[at] == _VERSION:
            at = _behind(der, at)
        for tag in (_INTEGER, _SEQUENCE, _SEQUENCE):
            _inside(der, at, tag)
            at = _behind(der, at)
        at = _behind(der, _inside(der, at, _SEQUENCE))
        return _time(der[at], der[_value_at(der, at)[0] : _behind(der, at)].decode("ascii"))
    except (IndexError, UnicodeDecodeError) as error:
        raise ValueError("it ends too early, or is no certificate") from error


def _value_at(der: bytes, at: int) -> tuple[int, int]:
    """Where the value of the element at ``at`` begins, and its length."""
    first = der[at + 1]
    if first < 0x80:
        return at + 2, first
    count = first & 0x7F
    return at + 2 + count, int.from_bytes(der[at + 2 : at + 2 + count], "big")


def _inside(der: bytes, at: int, tag: int) -> int:
    if der[at] != tag:
        raise ValueError(f"an element is of type {der[at]:#x} instead of {tag:#x}")
    return _value_at(der, at)[0]


def _behind(der: bytes, at: int) -> int:
    begin, length = _value_at(der, at)
    return begin + length


def _time(tag: int, text: str) -> float:
    """Both forms end in Z. Two digits of a year below 50 are of this century (RFC 5280 §4.1.2.5.1)."""
    if tag == _UTC_TIME:
        text = ("20" if int(text[:2]) < 50 else "19") + text
    elif tag != _GENERALIZED_TIME:
        raise ValueError(f"a time is of type {tag:#x}")
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()
