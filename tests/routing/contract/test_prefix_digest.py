"""Digests of prompts' prefixes: small, the same on every machine, and refused if they are anything else."""

import msgspec
import pytest

from routing.contract.decode_errors import DECODE_ERRORS
from routing.contract.prefix_digest import (
    FORMAT,
    MOST_BYTES,
    MOST_HASHES,
    FleetPart,
    PrefixDigest,
    decode,
    encode,
    packed,
    unpacked,
)

HASHES = [0, 1, 2**63, 2**64 - 1]
PART = FleetPart("llm", 256, [(b"replica1", packed(HASHES))])
DIGEST = PrefixDigest(FORMAT, b"identity", [PART])


def test_it_comes_back_as_it_was() -> None:
    assert decode(encode(DIGEST)) == DIGEST
    assert list(unpacked(DIGEST.fleets[0].replicas[0][1])) == HASHES


def test_hashes_are_little_endian_on_every_machine() -> None:
    assert packed([1, 2**63]) == b"\x01\0\0\0\0\0\0\0" + b"\0\0\0\0\0\0\0\x80"


def test_a_thousand_hashes_take_little_more_than_eight_bytes_each() -> None:
    many = FleetPart("llm", 256, [(b"replica%d" % at, packed(range(100))) for at in range(10)])
    assert len(encode(PrefixDigest(FORMAT, b"identity", [many]))) < 8 * 1000 + 200


def test_fields_that_a_later_version_appends_are_passed_over() -> None:
    later = [FORMAT, b"identity", [["llm", 256, [[b"replica1", packed(HASHES)]], "more"]], {"more": 1}]
    assert decode(msgspec.msgpack.encode(later)) == DIGEST


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\xc1",
        b"*",
        encode(DIGEST)[:-1],
        msgspec.msgpack.encode({"format": FORMAT}),
        msgspec.msgpack.encode([FORMAT, b"identity"]),
        msgspec.msgpack.encode([FORMAT, b"identity", [["llm", "256", []]]]),
        msgspec.msgpack.encode([FORMAT, b"identity", [["llm", 256, [[b"replica1", 17]]]]]),
        encode(PrefixDigest(FORMAT + 1, b"identity", [PART])),
        encode(PrefixDigest(FORMAT, b"identity", [FleetPart("llm", 256, [(b"replica1", b"1234567")])])),
        encode(PrefixDigest(FORMAT, bytes(MOST_BYTES), [])),
        encode(
            PrefixDigest(FORMAT, b"identity", [FleetPart("llm", 256, [(b"r", bytes(8 * MOST_HASHES + 8))])])
        ),
        b"\x91" * 100_000,
    ],
)
def test_what_is_none_is_refused(message: bytes) -> None:
    with pytest.raises((ValueError, *DECODE_ERRORS)):
        decode(message)
