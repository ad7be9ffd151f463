"""Continuable response: a stream that another replica may continue, and the seam between two replicas' parts.

Theory. While the first replica answers, what goes to the client is kept
(:mod:`routing.proxy.exchange.continuation.kept_stream`), and only whole events go: a part of one, as it comes
where a segment ends within a chunk, waits for its end. Servers send each event as one chunk, so that chunks
that pass unread end with events; where one does not, and the stream breaks just there, it is not continued.

When the attempt has failed (:mod:`routing.proxy.exchange.failed_attempt`), what was said is read, and the
request that continues it is begun at another replica that can do that (:mod:`~.targets`). The client hears
nothing until that replica answers. What it sends is spliced
(:mod:`routing.protocols.continuation.splice`) and kept in its turn, so that an answer may have two seams:
:data:`~routing.proxy.exchange.retry_policy.MAX_EXTRA_ATTEMPTS` extra ones in all, those before its first byte
included.
"""

from __future__ import annotations

from routing.balancing.attempt.outcome import Outcome
from routing.balancing.replica.state import Replica
from routing.contract.telemetry import FleetCounters
from routing.http.chunked import LAST_CHUNK, encode_chunk
from routing.http.response_head import ResponseHead
from routing.protocols import openai
from routing.protocols.answer_shape import CHOICES
from routing.protocols.continuation.next_request import CHAT, NextRequest, Prefill, check_request
from routing.protocols.continuation.refusal import CAUSES, NotContinuable
from routing.protocols.continuation.said import Said, whole_events
from routing.protocols.continuation.splice import DONE_EVENT, Splice
from routing.proxy.exchange.continuation.kept_stream import KeptStream
from routing.proxy.exchange.sent_tail import SentTail
from routing.proxy.exchange.streaming_response import StreamingResponse

_FEW = 8
"""Pieces of a tail: what passes comes joined, a quarter of a second's in each."""
_MOST_HELD_BYTES = 65_536
"""Of an event that is not complete. What is longer goes on as it comes."""


class ContinuableResponse(StreamingResponse):
    """Its state. ``kept.cause`` says why it cannot be continued, if that is known."""

    __slots__ = (
        "_asked",
        "_held",
        "_splice",
        "call",
        "examined",
        "failed_at",
        "is_moving",
        "kept",
        "moves",
        "unreached",
        "version",
    )

    def __init__(
        self,
        head: ResponseHead,
        outcome: Outcome,
        minor: int,
        keep: bool,
        call: bytes,
        kept: KeptStream,
        failed_at: tuple[Replica, ...],
        version: str,
    ) -> None:
        """``call``: as of :func:`routing.protocols.continuation.next_request.call_of`. ``failed_at``:
        replicas that have failed its request. ``version``: of the one that answers."""
        super().__init__(head, outcome, minor, keep, "openai")
        self.call = call
        self.kept = kept
        self.failed_at = failed_at
        """Replicas that are not asked to continue. One that it was moved away from has not failed."""
        self.version = version
        """As its first replica had it then: a table that came since may give that one another."""
        self.moves = 0
        """How often it was moved away from a replica that was to be free."""
        self.is_moving = False
        """Whether the other replica is asked because of that, and has not answered yet."""
        self.examined = False
        """Whether its request was looked at: whether any answer to it could be continued."""
        self.unreached = 0
        """Attempts to continue it that have reached no replica."""
        self._held = b""
        """Of an event that is not complete."""
        self._asked: NextRequest | None = None
        self._splice: Splice | None = None
        """Set once another replica continues it."""
        self.sent = SentTail(CHOICES, head.block, self.chunks, _FEW)
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
            text = text if complete else self._whole(text)
        self.passes_chunks = self.chunks and self._splice is None and not self._held
        chunk = encode_chunk(text) if text and self.chunks else text
        if chunk and self.sent is not None:
            self.sent.keep(chunk)
        if not self.chunks:
            return chunk
        self.kept.add(chunk)
        return chunk + LAST_CHUNK if complete else chunk

    def is_truncated(self, last: bytes) -> bool:
        # What another replica says is read as it comes (``is_cut``).
        return self._splice is None and super().is_truncated(self._held + last)

    def _whole(self, text: bytes) -> bytes:
        """What may go on of this: whole events. The rest is held."""
        end = whole_events(text)
        if len(text) - end > _MOST_HELD_BYTES:
            self.kept.drop("partial_event")
            return text
        self._held = text[end:]
        return text[:end]

    # The seam.

    def examine(self, prefill: Prefill) -> None:
        """Find out whether answers to such a request can be continued; what cannot is kept no longer."""
        self.examined = True
        try:
            check_request(self.call, self.kept.body, prefill)
        except NotContinuable as refusal:
            self.kept.drop(refusal.cause)

    def ask(self, said: Said, asked: NextRequest, moves: bool = False) -> None:
        """Another replica is asked for the rest. ``moves``: its own has not failed, but is to be free."""
        self.is_moving = moves
        self.moves += moves
        self._asked = asked
        self._splice = Splice(said, asked)
        self._held = b""
        self.passes_chunks = False

    def resume(self, outcome: Outcome, echoes: bool) -> bytes:
        """It begins to answer. Returns what the client gets first. ``echoes``: it repeats what it
        continues."""
        assert self._splice is not None
        self.continued += 1
        self.is_moving = False
        self._tokens = openai.StreamTokenCounter()
        self.watched = None
        self.outcome = outcome
        chunk = encode_chunk(self._splice.begin(echoes and self.call == CHAT))
        self.kept.add(chunk)
        return chunk

    def broken_off(self, status: int, code: str, words: str, request_id: str) -> bytes:
        cause = self.kept.cause
        if self.chunks and cause in CAUSES:
            words = f"{words}; it was not continued: {CAUSES[cause]}"
        self.kept.drop("")
        # What came of an event that is not complete goes to nobody. The splice still knows what was used.
        self._held = b""
        splice, self._splice = self._splice, None
        last = super().broken_off(status, code, words, request_id)
        self._splice = splice
        return last

    def give_up(self, cause: str, counters: FleetCounters) -> None:
        """It is not continued, for this cause, which is counted."""
        counters.not_continued[cause] = counters.not_continued.get(cause, 0) + 1
        self.kept.drop(cause)

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
