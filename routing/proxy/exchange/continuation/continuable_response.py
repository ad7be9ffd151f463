"""Continuable response: a stream that another replica may say on, and the seam between two replicas' parts.

Theory. While the first replica answers, what goes to the client is kept
(:mod:`routing.proxy.exchange.continuation.kept_stream`), and only whole events go: a part of one, as it comes
where a segment ends within a chunk, waits for its end. Servers send each event as one chunk, so that chunks
that pass unread end with events; where one does not, and the stream breaks just there, it is not continued.

When the attempt has failed (:mod:`routing.proxy.exchange.failed_attempt`), what was said is read, and the
request that continues it is begun at another replica that can do that (:mod:`~.targets`). The client hears
nothing until that replica answers. What it sends is spliced
(:mod:`routing.protocols.continuation.splice`) and kept in its turn, so that an answer may have two seams:
:data:`MAX_RETRIES` extra attempts in all, those before its first byte included.
"""

from __future__ import annotations

from routing.balancing.attempt.outcome import Outcome
from routing.http.chunked import LAST_CHUNK, encode_chunk
from routing.http.response_head import ResponseHead
from routing.protocols import openai
from routing.protocols.continuation.next_request import CHAT, NextRequest
from routing.protocols.continuation.refusal import CAUSES
from routing.protocols.continuation.said import DONE, Said, is_whole, whole_events
from routing.protocols.continuation.splice import DONE_EVENT, Splice
from routing.proxy.exchange.continuation.kept_stream import KeptStream
from routing.proxy.exchange.streaming_response import StreamingResponse

_MOST_HELD_BYTES = 65_536
"""Of an event that is not complete. What is longer goes on as it comes."""


class ContinuableResponse(StreamingResponse):
    """Its state. ``kept.cause`` says why it cannot be continued, if that is known."""

    __slots__ = ("_asked", "_held", "_splice", "attempts_left", "call", "kept", "unreached")

    def __init__(
        self,
        head: ResponseHead,
        outcome: Outcome,
        minor: int,
        keep: bool,
        call: bytes,
        kept: KeptStream,
        attempts_left: int,
    ) -> None:
        """``call``: as of :func:`routing.protocols.continuation.next_request.call_of`. ``attempts_left``: how
        many more its request may have."""
        super().__init__(head, outcome, minor, keep, "openai")
        self.call = call
        self.kept = kept
        self.attempts_left = attempts_left
        self.unreached = 0
        """Attempts to continue it that have reached no replica."""
        self._held = b""
        """Of an event that is not complete."""
        self._asked: NextRequest | None = None
        self._splice: Splice | None = None
        """Set once another replica says on."""
        if not self.chunks:
            kept.drop("client")

    # What passes.

    def count_uncounted(self) -> int:
        uncounted = self.uncounted_chunks
        chunks = b"".join(uncounted)
        self.kept.add(chunks)
        uncounted[:] = (chunks,)
        return super().count_uncounted()

    def framed(self, piece: bytes, complete: bool) -> bytes:
        text = self._held + piece
        self._held = b""
        if self._splice is not None:
            text = self._splice.feed(text)
            self.is_cut = complete and not self._splice.finished
            complete = complete and not self.is_cut
            if complete and not self._splice.is_over:
                text += DONE_EVENT
        elif not self.kept.cause:
            text = self._whole(text, complete)
            complete = complete and not self.is_cut
        self.passes_chunks = self.chunks and self._splice is None and not self._held
        if not self.chunks:
            return text
        chunk = encode_chunk(text) if text else b""
        self.kept.add(chunk)
        return chunk + LAST_CHUNK if complete else chunk

    def _whole(self, text: bytes, complete: bool) -> bytes:
        """What may go on of this: whole events. The rest is held. Where the stream is complete, and its
        answer is not, that is dropped, for another replica may say on."""
        end = whole_events(text)
        if complete:
            # Usually the last event is the usual one: to read all of them would cost more than passing them.
            told = text.rstrip().endswith(DONE) if text else self.kept.ends_with(DONE)
            self.is_cut = not told and not is_whole(self.kept.text() + text)
            return text[:end] if self.is_cut else text
        if len(text) - end > _MOST_HELD_BYTES:
            self.kept.drop("partial_event")
            return text
        self._held = text[end:]
        return text[:end]

    # The seam.

    def ask(self, said: Said, asked: NextRequest) -> None:
        """Another replica is asked for the rest."""
        self._asked = asked
        self._splice = Splice(said, asked)
        self._held = b""
        self.passes_chunks = False

    def resume(self, outcome: Outcome, echoes: bool) -> bytes:
        """It begins to answer. Returns what the client gets first. ``echoes``: it repeats what it
        continues."""
        assert self._splice is not None
        self.continued += 1
        self._tokens = openai.StreamTokenCounter()
        self.watched = None
        self.outcome = outcome
        chunk = encode_chunk(self._splice.begin(echoes and self.call == CHAT))
        self.kept.add(chunk)
        return chunk

    def broken_off(self, status: int, code: str, words: str, request_id: str) -> bytes:
        if not self.chunks or self.kept.cause == "partial_event":
            return b""
        cause = self.kept.cause
        if cause in CAUSES:
            words = f"{words}; it was not continued: {CAUSES[cause]}"
        error = openai.error_body(status, code, words)
        return encode_chunk(b"data: " + error + b"\n\n")

    def ended(self) -> None:
        self.kept.drop("")

    @property
    def is_resumed(self) -> bool:
        """Whether another replica is asked for the rest, or sends it."""
        return self._splice is not None

    def used(self) -> tuple[int, int]:
        splice, asked = self._splice, self._asked
        if splice is None or asked is None:
            return super().used()
        if splice.output_tokens:
            return splice.output_tokens, splice.prompt_tokens
        return asked.all_tokens + self.tokens(), 0
