"""Request body that did not arrive with its head: framing, size limit, minimum rate (slow clients)."""

from itertools import count

from routing.http.chunked import MOST_TINY, ChunkedDecoder
from routing.http.errors import BadChunk, RequestRefused
from routing.http.limits import PROGRESS_BYTES, BodyLimits
from routing.http.request_head import RequestHead

_numbers = count(1)


class RequestBody:
    """Counts down a Content-Length or decodes chunks. After the end ``rest`` holds the bytes that follow."""

    __slots__ = (
        "_decoder",
        "_moved",
        "_moved_at",
        "_paused_at",
        "_remaining",
        "_since",
        "chunked",
        "complete",
        "limits",
        "number",
        "received",
        "rest",
    )

    def __init__(self, head: RequestHead, limits: BodyLimits, now: float) -> None:
        self.number = next(_numbers)
        """Bodies are numbered as they begin."""
        self.limits = limits
        """May be replaced while the body comes."""
        self.chunked = head.chunked
        self._decoder = ChunkedDecoder(MOST_TINY) if head.chunked else None
        self._remaining = head.content_length
        self._since = now
        self._paused_at = 0.0
        self._moved_at = now
        self._moved = 0
        """When it had made progress last, and what was received then."""
        self.received = 0
        """Payload bytes so far."""
        self.complete = False
        self.rest = b""

    def feed(self, data: bytes) -> bytes:
        """The payload in ``data``. Raises :class:`RequestRefused`, also when too much is announced."""
        if self._remaining > self.limits.max_bytes:
            raise self._too_large()
        if self._decoder is None:
            piece = data[: self._remaining]
            self._remaining -= len(piece)
            if not self._remaining:
                self.complete = True
                self.rest = data[len(piece) :]
        else:
            try:
                piece = self._decoder.feed(data)
            except BadChunk as error:
                raise RequestRefused(400, "bad_chunk", str(error)) from None
            if self._decoder.done:
                self.complete = True
                self.rest = self._decoder.rest
        self.received += len(piece)
        if self.received > self.limits.max_bytes:
            raise self._too_large()
        return piece

    def is_slow(self, now: float) -> bool:
        """Whether the client has fallen behind the minimum rate, has stalled, or has taken too long in all.
        Time spent paused is not the client's. Called several times a second."""
        if self._paused_at:
            return False
        limits = self.limits
        if self.received - self._moved >= PROGRESS_BYTES:
            self._moved, self._moved_at = self.received, now
        elif now - self._moved_at > limits.stall_s:
            return True
        if now - self._since > limits.total_s:
            return True
        return now - self._since > limits.grace_s + self.received / limits.min_bytes_per_s

    @property
    def slow_since(self) -> float | None:
        """When its client was last seen to have made progress; ``None``: it is paused."""
        return None if self._paused_at else self._moved_at

    def pause(self, now: float) -> None:
        self._paused_at = now

    def resume(self, now: float) -> None:
        self._since += now - self._paused_at
        self._moved_at += now - self._paused_at
        self._paused_at = 0.0

    def _too_large(self) -> RequestRefused:
        words = f"the request body is larger than {self.limits.max_bytes} bytes, the most that is taken here"
        return RequestRefused(413, "body_too_large", words)
