"""Request body that did not arrive with its head: framing, size limit, minimum rate (slow clients)."""

from routing.http.chunked import ChunkedDecoder
from routing.http.errors import BadChunk, RequestRefused
from routing.http.limits import BodyLimits
from routing.http.request_head import RequestHead


class RequestBody:
    """Counts down a Content-Length or decodes chunks. After the end ``rest`` holds the bytes that follow."""

    __slots__ = ("_decoder", "_paused_at", "_remaining", "_since", "complete", "limits", "received", "rest")

    def __init__(self, head: RequestHead, limits: BodyLimits, now: float) -> None:
        self.limits = limits
        """May be replaced while the body comes."""
        self._decoder = ChunkedDecoder() if head.chunked else None
        self._remaining = head.content_length
        self._since = now
        self._paused_at = 0.0
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
        """Whether the client has fallen behind the minimum rate. Time spent paused is not the client's."""
        if self._paused_at:
            return False
        limits = self.limits
        return now - self._since > limits.grace_s + self.received / limits.min_bytes_per_s

    def pause(self, now: float) -> None:
        self._paused_at = now

    def resume(self, now: float) -> None:
        self._since += now - self._paused_at
        self._paused_at = 0.0

    def _too_large(self) -> RequestRefused:
        words = f"the request body is larger than {self.limits.max_bytes} bytes, the most that is taken here"
        return RequestRefused(413, "body_too_large", words)
