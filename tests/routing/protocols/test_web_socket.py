"""Frames of WebSockets: where they end, messages, and the tokens that texts report."""

import os
import random

import pytest

from routing.protocols.web_socket import FREE_FRAMES, LONGEST_TEXT, FrameReader, Usage, close_frame, usage_of


def frame(
    payload: bytes, opcode: int = 1, *, fin: bool = True, mask: bool = False, rsv1: bool = False
) -> bytes:
    """As RFC 6455 §5.2 draws it."""
    first = opcode | (0x80 if fin else 0) | (0x40 if rsv1 else 0)
    size, masked = len(payload), 0x80 if mask else 0
    if size < 126:
        length = bytes([masked | size])
    elif size < 1 << 16:
        length = bytes([masked | 126]) + size.to_bytes(2, "big")
    else:
        length = bytes([masked | 127]) + size.to_bytes(8, "big")
    return bytes([first]) + length + (os.urandom(4) if mask else b"") + payload


TEXTS = [b"", b"a", b"x" * 125, b"y" * 126, b"z" * 70_000]


@pytest.mark.parametrize("step", [1, 2, 3, 7, 1000, 1 << 20])
def test_messages_are_found_however_the_bytes_come(step: int) -> None:
    found: list[bytes] = []
    reader = FrameReader(found.append)
    stream = b"".join(frame(text) for text in TEXTS)
    stream += frame(b"one ", fin=False) + frame(b"ping", 9) + frame(b"two", 0) + frame(b"\0\1", 2)
    for at in range(0, len(stream), step):
        reader.feed(stream[at : at + step])
    assert found == [*TEXTS, b"one two"]
    assert reader.messages == len(TEXTS) + 2
    assert reader.between_frames
    reader.feed(frame(b"half")[:4])
    assert not reader.between_frames


def test_what_cannot_be_read_is_counted_only() -> None:
    found: list[bytes] = []
    reader = FrameReader(found.append)
    for data in (
        frame(b"masked", mask=True),
        frame(b"deflated", rsv1=True),
        frame(b"x" * (LONGEST_TEXT + 1)),
    ):
        reader.feed(data)
    assert (found, reader.messages) == ([], 3)
    reader.feed(frame(b"again"))
    assert found == [b"again"]


def test_whatever_comes_is_read_without_an_error() -> None:
    rng = random.Random(7)
    for _ in range(300):
        reader = FrameReader(lambda _: None)
        for _ in range(20):
            reader.feed(rng.randbytes(rng.randrange(1, 60)))


def test_a_flood_of_tiny_frames_is_not_read_along() -> None:
    """A read of 256 KiB of them held up the worker for a tenth of a second."""
    reader = FrameReader()
    reader.feed(b"\x81\x01a" * FREE_FRAMES)
    assert (reader.messages, reader.between_frames) == (FREE_FRAMES, True)
    reader.feed(bytes(1 << 18))
    counted = reader.messages
    assert not reader.between_frames
    reader.feed(b"\x81\x01a")
    assert reader.messages == counted


def test_the_close_frame() -> None:
    assert close_frame(1001, "bye") == b"\x88\x05\x03\xe9bye"
    assert len(close_frame(1008, "ü" * 200)) <= 2 + 2 + 123


@pytest.mark.parametrize(
    ("text", "usage"),
    [
        (
            b'{"type":"response.done","response":{"usage":{"total_tokens":9,"input_tokens":5,"output_tokens":4}}}',
            (5, 4),
        ),
        (
            b'{"response":{"usage":{"input_tokens":5,"input_token_details":{"cached_tokens":3},"output_tokens":4}}}',
            (5, 4),
        ),
        (b'{"usage":{"prompt_tokens":2,"completion_tokens":3}}', (2, 3)),
        (b'{"type":"response.created","response":{"usage":null}}', None),
        (b'{"delta":"say \\"usage\\" again"}', None),
        (b'{"usage":{"type":"duration","seconds":3}}', None),
        (b'{"usage":{"input_tokens":-5,"output_tokens":0}}', None),
        (b'{"usage":[1]}', None),
        (b'"usage"', None),
        (b'{"usage":', None),
    ],
)
def test_tokens_that_a_message_reports(text: bytes, usage: tuple[int, int] | None) -> None:
    assert usage_of(text) == (None if usage is None else Usage(*usage))
