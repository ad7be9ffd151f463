"""Finished traces: what a worker has recorded of sampled requests, for the master, which exports it.

Never in one: bodies, header fields, query strings, client keys, addresses of clients.
"""

import msgspec

MAX_WAITING_SPANS = 4096
"""Of one worker, between two times that it sends them to the master."""
MAX_TEXT_CHARS = 256
"""Of a path, a model's name, or any other text that a client or a replica may choose."""


class FinishedAttempt(msgspec.Struct, frozen=True, array_like=True):
    """One attempt at a replica. Times are of ``time.monotonic()``."""

    span_id: bytes
    """16 hexadecimal digits."""
    started: float
    ended: float
    replica: str
    host: str
    port: int
    outcome: str
    """A value of :class:`routing.balancing.attempt.outcome.Outcome`."""
    status: int
    """Of the replica's response; 0: none, or not known."""
    reason: str
    """Why there was another attempt; empty: it was the first."""


class FinishedTrace(msgspec.Struct, frozen=True, array_like=True):
    """One request. Times are of ``time.monotonic()``."""

    trace_id: bytes
    """32 hexadecimal digits."""
    span_id: bytes
    """16 hexadecimal digits."""
    parent_id: bytes
    """The caller's span; empty: the trace begins here."""
    unix_offset_ns: int
    """Unix time less ``time.monotonic()``."""
    started: float
    ended: float
    first_token: float
    """When the first content of a streamed answer came; 0: none."""
    waits: list[tuple[float, float]]
    """When it waited for a slot."""
    method: str
    path: str
    """Without the query."""
    scheme: str
    status: int
    """As sent to the client; 0: the client left first."""
    ending: str
    """As in :class:`routing.ipc.access_log.AccessLine`."""
    code: str
    """Of the proxy's own error."""
    request_id: str
    fleet: str
    asked_fleet: str
    """That the client has asked, where ``fleet`` has served in its place."""
    protocol: str
    """Of the fleet."""
    model: str
    """That replicas were asked for."""
    answered_by: str
    """The model, as the response names it."""
    stream: bool
    input_tokens: int
    output_tokens: int
    """As the response says; 0: it does not."""
    attempts: list[FinishedAttempt]

    @property
    def spans(self) -> int:
        return 1 + len(self.waits) + len(self.attempts)


encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(list[FinishedTrace]).decode


class TraceBuffer:
    """The finished traces of one worker that were not sent yet. Bounded: what does not fit is counted."""

    def __init__(self) -> None:
        self._traces: list[FinishedTrace] = []
        self.spans = 0
        self.dropped = 0
        """Spans that did not fit."""

    def add(self, trace: FinishedTrace) -> None:
        spans = trace.spans
        if self.spans + spans > MAX_WAITING_SPANS:
            self.dropped += spans
        else:
            self.spans += spans
            self._traces.append(trace)

    def take(self) -> tuple[list[FinishedTrace], int, int]:
        """All of them, how many spans they are, and how many were dropped since this was last asked."""
        taken = self._traces, self.spans, self.dropped
        self._traces, self.spans, self.dropped = [], 0, 0
        return taken
