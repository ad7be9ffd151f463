"""Streaming response: one that does not come in one piece; its framing for the client, and its tokens."""

from typing import Final

from routing.balancing.attempt.outcome import Outcome
from routing.contract.telemetry import FleetCounters
from routing.http.chunked import LAST_CHUNK, decode_chunks, encode_chunk
from routing.http.response_head import ResponseHead
from routing.protocols import openai
from routing.protocols.answer_shape import UNJUDGED, BodyInPieces, EventStream
from routing.protocols.stream_end import StreamEnd
from routing.protocols.stream_error import error_event
from routing.protocols.stream_start import MAY_BE_IDLE, Start, StreamStart, is_idle
from routing.protocols.web_socket import FrameReader, usage_of
from routing.proxy.exchange.sent_tail import SentTail, tail_of

_CLOSE: Final = b"\r\nConnection: close"
_CHUNKED: Final = b"\r\nTransfer-Encoding: chunked"
_END: Final = b"\r\n\r\n"
_SIZE_LINE: Final = 20
"""Bytes that a chunk's size, its line end and the next byte have at most."""
_TOLD: Final = (StreamEnd.DONE, StreamEnd.ERROR)


class StreamingResponse:
    """State of one response that is being forwarded."""

    __slots__ = (
        "_tokens",
        "chunks",
        "continued",
        "ending",
        "ends_with_connection",
        "failed",
        "is_cut",
        "is_events",
        "keep",
        "outcome",
        "passes_chunks",
        "sent",
        "start",
        "status",
        "uncounted_chunks",
        "watched",
    )

    is_tunnel = False

    def __init__(
        self,
        head: ResponseHead,
        outcome: Outcome,
        minor: int,
        keep: bool,
        protocol: str,
        mark: bytes = UNJUDGED,
    ) -> None:
        """``minor``: of the client's HTTP version; ``keep``: whether its connection may be kept; ``mark``: of
        the request's call (:mod:`routing.protocols.answer_shape`)."""
        without_length = head.content_length < 0
        self.chunks = without_length and minor == 1
        """Whether it is forwarded in chunks."""
        self.passes_chunks = self.chunks
        """Whether whole chunks may pass unread now."""
        self.ends_with_connection = without_length and not self.chunks
        self.keep = keep and not self.ends_with_connection
        self.outcome = outcome
        self.status = head.status
        self.failed = head.status >= 500
        self.continued = 0
        """How often another replica went on with it."""
        self.is_cut = False
        """Whether the stream has ended, though its answer has not."""
        self.ending = (_CHUNKED if self.chunks else b"") + (b"" if self.keep else _CLOSE) + _END
        """The last fields of the head."""
        self._tokens: openai.StreamTokenCounter | openai.TailTokenCounter | None = None
        self.is_events = events = b"text/event-stream" in head.block
        """Whether it is a stream of events."""
        self.sent: SentTail | None = None
        """The tail of an event stream whose end is known; ``None``: it is none."""
        if protocol == "openai":
            self._tokens = openai.StreamTokenCounter() if events else openai.TailTokenCounter()
            if events:
                self.sent = tail_of(mark, protocol, head.status, head.block, self.chunks)
        elif protocol == "open-inference" and events:
            self._tokens = openai.StreamTokenCounter(closing=0)
        self.start: StreamStart | None = None
        """Reads a stream that has no content yet; ``None``: it has, or it is no stream of a known call."""
        self.watched: BodyInPieces | EventStream | None = None
        """Reads along, to see whether it is an answer of its protocol; ``None``: that is not asked."""
        self.uncounted_chunks: list[bytes] = []
        """Whole chunks, still framed, that were forwarded and whose tokens are not counted yet."""

    def count(self, piece: bytes) -> int:
        """Count a piece of the body. Returns its output tokens, as far as known."""
        if self.watched is not None and self.watched.reads_on:
            self.watched.feed(piece)
        return self._tokens.feed(piece) if self._tokens is not None else 0

    def tells(self, piece: bytes) -> bool:
        """Whether these bytes are more of the answer: in a stream of events, comments are not, nor is what
        comes before there is content. To be asked once of each piece, in order."""
        if self.start is not None:
            if self.start.feed(piece) is Start.NOTHING:
                return False
            self.start = None
            return True
        return self.sent is None or not is_idle(piece)

    def has_told(self) -> bool:
        """The same of the chunks in ``uncounted_chunks``, of which there are some."""
        return self.sent is None or not all(map(_is_idle_chunk, reversed(self.uncounted_chunks)))

    def is_truncated(self, last: bytes) -> bool:
        """Whether a stream that has ended well in HTTP has not ended as its protocol does. ``last``: what
        came with its end."""
        return self.sent is not None and self.sent.end(last) is StreamEnd.TRUNCATED

    def count_sent(self, piece: bytes) -> None:
        """Bytes of the client, in a tunnel."""

    def count_uncounted(self) -> int:
        """As :meth:`count`, for the chunks in ``uncounted_chunks``."""
        uncounted = self.uncounted_chunks
        if self.sent is not None:
            self.sent.keep_all(uncounted)
        is_read = self.watched is not None and self.watched.reads_on
        if self._tokens is None and not is_read:
            uncounted.clear()
            return 0
        chunks = b"".join(uncounted)
        if is_read:
            self.watched.feed(decode_chunks(chunks))  # type: ignore[union-attr]
        if self._tokens is None:
            uncounted.clear()
            return 0
        count = self._tokens.feed_framed(uncounted, chunks)
        uncounted.clear()
        return self._tokens.feed(decode_chunks(chunks)) if count is None else count

    def tokens(self) -> int:
        """Output tokens of the whole response; 0 if not known."""
        return self._tokens.total() if self._tokens is not None else 0

    def prompt_tokens(self) -> int:
        """Tokens of the prompt as the response reports them; 0: it does not."""
        return self._tokens.prompt() if self._tokens is not None else 0

    def used(self) -> tuple[int, int]:
        """Output tokens and those of the prompt, of the whole answer as its client has it."""
        return self.tokens(), self.prompt_tokens()

    def broken_off(self, status: int, code: str, words: str, request_id: str) -> bytes:
        """What the client gets last where it ends without its end: an error event, where the protocol has
        one and the client does not know yet. Nothing: its connection is cut."""
        sent = self.sent
        if sent is None or not (self.chunks or self.ends_with_connection) or not sent.is_readable:
            return b""
        if sent.end() in _TOLD:
            return b""
        return self.framed(error_event(sent.mark, status, code, words, request_id, sent.text()), False)

    def give_up(self, cause: str, counters: FleetCounters) -> None:
        """It was to go on elsewhere, and does not, for this cause."""

    def ended(self) -> None:
        """Its exchange has ended."""

    def framed(self, piece: bytes, complete: bool) -> bytes:
        """A piece as it goes to the client."""
        if self.chunks and piece:
            piece = encode_chunk(piece)
        if self.sent is not None and piece:
            self.sent.keep(piece)
        return piece + LAST_CHUNK if complete and self.chunks else piece


def _is_idle_chunk(chunks: bytes) -> bool:
    """Of whole chunks."""
    begin = chunks.find(b"\n") + 1
    return chunks[begin : begin + 1] in MAY_BE_IDLE and is_idle(decode_chunks(chunks))


class TunnelResponse(StreamingResponse):
    """A replica's bytes after a protocol upgrade. They are forwarded as they come, and read along."""

    __slots__ = ("_counters", "_output", "_prompt", "from_client", "from_replica")

    is_tunnel = True

    def __init__(self, head: ResponseHead, protocol: str, counters: FleetCounters) -> None:
        """``protocol``: of the fleet, ``counters``: where its messages are counted."""
        super().__init__(head, Outcome.SUCCESS, 0, False, "generic")
        self.ends_with_connection = False
        self._counters = counters
        self._output = self._prompt = 0
        self.from_client = FrameReader()
        self.from_replica = FrameReader(self._read if protocol == "openai" else None)

    def count(self, piece: bytes) -> int:
        """Bytes from the replica. No tokens: a tunnel says nothing about a replica's speed."""
        self._follow(self.from_replica, piece)
        return 0

    def count_sent(self, piece: bytes) -> None:
        """Bytes from the client."""
        self._follow(self.from_client, piece)

    def take_tokens(self) -> int:
        """Tokens that the replica has reported since this was last asked."""
        tokens = self._output + self._prompt
        self._output = self._prompt = 0
        return tokens

    def tokens(self) -> int:
        return self._output

    def prompt_tokens(self) -> int:
        return self._prompt

    def _follow(self, reader: FrameReader, piece: bytes) -> None:
        before = reader.messages
        reader.feed(piece)
        self._counters.web_socket_messages += reader.messages - before
        self._counters.web_socket_bytes += len(piece)

    def _read(self, text: bytes) -> None:
        usage = usage_of(text)
        if usage is not None:
            self._prompt += usage.prompt
            self._output += usage.output
