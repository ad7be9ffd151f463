"""Chunked bodies: the same payload however the bytes are cut, and the same refusals."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.http.chunked import (
    LAST_CHUNK,
    ChunkedDecoder,
    are_whole_chunks,
    decode_chunks,
    encode_chunk,
    size_lines,
)
from routing.http.errors import BadChunk


def decode(pieces: list[bytes]) -> tuple[bytes, bool, bytes]:
    decoder = ChunkedDecoder()
    payload = b""
    for number, piece in enumerate(pieces):
        payload += decoder.feed(piece)
        if decoder.done:
            return payload, True, decoder.rest + b"".join(pieces[number + 1 :])
    return payload, False, b""


def cut(data: bytes, at: list[int]) -> list[bytes]:
    places = [0, *sorted(place % (len(data) + 1) for place in at), len(data)]
    return [data[a:b] for a, b in pairwise(places)]


def outcome(pieces: list[bytes]) -> object:
    try:
        return decode(pieces)
    except BadChunk:
        return "refused"


@given(
    st.lists(st.binary(min_size=1, max_size=40), max_size=5),
    st.sampled_from([b"", b"X-T: 1\r\n", b"A: \r\nB: 2\r\n"]),
    st.binary(max_size=10),
    st.lists(st.integers(0, 400), max_size=8),
)
def test_split_anywhere(chunks: list[bytes], trailers: bytes, rest: bytes, at: list[int]) -> None:
    data = b"".join(encode_chunk(chunk) for chunk in chunks) + b"0\r\n" + trailers + b"\r\n" + rest
    assert decode(cut(data, at)) == (b"".join(chunks), True, rest)


@given(st.binary(max_size=40), st.lists(st.integers(0, 60), max_size=6))
def test_refusals_do_not_depend_on_the_cuts(noise: bytes, at: list[int]) -> None:
    data = b"2\r\nok\r\n" + noise + LAST_CHUNK
    assert outcome(cut(data, at)) == outcome([data])


@given(
    st.lists(
        st.sampled_from([b"5", b"\r\n", b"hello", b"0", b";a=b", b"\n", b"\r", b" ", b"x: 1"]), max_size=12
    )
)
def test_pieces_of_grammar(parts: list[bytes]) -> None:
    data = b"".join(parts)
    assert outcome([data[at : at + 1] for at in range(len(data))]) == outcome([data])


@pytest.mark.parametrize("length", [1, 9, 15, 16, 255, 256, 65_536])
def test_frame(length: int) -> None:
    piece = b"x" * length
    assert decode([encode_chunk(piece) + LAST_CHUNK]) == (piece, True, b"")


@pytest.mark.parametrize(
    "data",
    [
        b"5 \r\nhello\r\n",
        b"\r\n",
        b"-1\r\n",
        b"0x1\r\n",
        b"1_0\r\n",
        b"11111111111111111\r\n",
        b"5;\r\nhello\r\n",
        b"5;=x\r\n",
        b'5;a="\r\n',
        b"5;a=b\x00\r\n",
        b"5\nhello",
        b"5\r\nhello!\r\n",
        b"0\r\nX T: 1\r\n\r\n",
        b"0\r\n" + b"X: " + b"y" * 900 + b"\r\n" * 1 + (b"X: " + b"y" * 900 + b"\r\n") * 10,
        b"5;" + b"a" * 2000,
    ],
)
def test_refused(data: bytes) -> None:
    assert outcome([data]) == "refused"
    assert outcome([data[at : at + 1] for at in range(len(data))]) == "refused"


def test_a_whole_chunk_is_known_once_one_of_its_length_was_read() -> None:
    for chunk in (encode_chunk(b"x" * 0xAB), b"AC\r\n" + b"x" * 0xAC + b"\r\n"):
        assert ChunkedDecoder().feed(chunk)
        assert size_lines[len(chunk)] == chunk[:4]


def test_what_is_not_framed_as_we_frame_is_not_passed_on_as_it_came() -> None:
    for chunk in (b"1;a=b\r\nx\r\n", b"00001\r\nx\r\n", LAST_CHUNK):
        known = size_lines.get(len(chunk))
        ChunkedDecoder().feed(chunk)
        assert size_lines.get(len(chunk)) == known


def test_within_a_chunk_or_a_line_no_whole_chunk_can_come() -> None:
    for between in (b"", encode_chunk(b"x" * 77)):
        decoder = ChunkedDecoder()
        decoder.feed(between)
        assert decoder.between_chunks
    for begun in (b"ff\r\n", b"5", b"5\r\nhello", b"0\r\n", LAST_CHUNK):
        decoder = ChunkedDecoder()
        decoder.feed(begun)
        assert not decoder.between_chunks


@pytest.mark.parametrize(
    "data", [b"7\r\nmore ofXX", b"7\r\nmore of\r", b"7\r\nmore o\r\n", b"7\nmore of\r\n\r\n"]
)
def test_a_size_that_was_read_before_says_no_more_than_the_first_time(data: bytes) -> None:
    """A whole chunk in one piece is known by its size line; whatever is not one is read like any other."""
    decoder = ChunkedDecoder()
    assert [decoder.feed(encode_chunk(piece)) for piece in (b"more of", b"the sam")] == [
        b"more of",
        b"the sam",
    ]
    assert outcome([b"7\r\nmore of\r\n", data]) == outcome([b"7\r\nmore of\r\n" + data])


@pytest.mark.parametrize("end", [b"XX", b"\r", b"\rX", b"\n\n", b"\n\r\n"])
def test_a_known_size_does_not_hide_a_wrong_end(end: bytes) -> None:
    whole = encode_chunk(b"more than a few")
    assert ChunkedDecoder().feed(whole + whole) == b"more than a few" * 2
    wrong = whole + whole[:-2] + end
    assert outcome([wrong]) == outcome([wrong[at : at + 1] for at in range(len(wrong))])


def test_chunks_that_come_together_are_known_as_whole() -> None:
    one, other = encode_chunk(b"y" * 0xB1), encode_chunk(b"y" * 0xB2)
    assert ChunkedDecoder().feed(one + other)
    assert are_whole_chunks(one + other + one)
    assert decode_chunks(one + other) == b"y" * (0xB1 + 0xB2)
    for not_whole in (
        one + other[:-1],
        one + other[:-2] + b"\n\n",
        one + LAST_CHUNK,
        one + b"%x\r\n" % 0xB2,
        one + b"y" * 0xB3,
        one + encode_chunk(b"z" * 0xB3F),
        one[:-2] + other,
    ):
        assert not are_whole_chunks(not_whole)


def test_a_request_has_a_bounded_number_of_tiny_chunks() -> None:
    decoder = ChunkedDecoder(most_tiny=10)
    assert decoder.feed(b"1\r\nx\r\n" * 9 + b"8\r\nxxxxxxxx\r\n" * 50) == b"x" * 409
    assert decoder.feed(b"0\r\n\r\n") == b"", "the last chunk is the tenth"
    assert decoder.done
    decoder = ChunkedDecoder(most_tiny=10)
    with pytest.raises(BadChunk, match="next to nothing"):
        decoder.feed(b"1\r\nx\r\n" * 11)
    assert ChunkedDecoder().feed(b"1\r\nx\r\n" * 20_000) == b"x" * 20_000, "a server may"
