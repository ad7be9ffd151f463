"""Trace record: collects one sampled exchange's spans. Used only for those that are sampled.

Times are noted as they pass; spans are made from them later, by the master. A write tap shows it the
beginning of what is sent to the client: the status, and how the response names its model.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic, time_ns

from routing.balancing.pool.pool import Attempt
from routing.http.trace_context import parent_field
from routing.ipc.finished_traces import MAX_TEXT_CHARS, FinishedTrace, TraceBuffer
from routing.proxy.exchange.state import Ending, ExchangeState
from routing.proxy.tracing.answer_model import model_of
from routing.proxy.tracing.attempt_span import AttemptSpan

_STATUS_REASON = "status_"
"""How the reasons of retries begin that name the status of a response."""
_OF_REPLICA: tuple[Ending, ...] = ("answered", "cut", "client_left")
"""How exchanges end whose status, if the client has got one, is a replica's."""
_MOST_PIECES = 4
"""Of a response, that are looked through for its model's name."""


class TraceRecord:
    """Implements :class:`routing.proxy.exchange.state.ExchangeRecord`, until the exchange has ended."""

    __slots__ = (
        "_answered_by",
        "_attempts",
        "_end_tap",
        "_exchange",
        "_finished",
        "_new_span_id",
        "_parent",
        "_pieces",
        "_queued_at",
        "_span",
        "_spans",
        "_status",
        "_trace",
        "_waits",
    )

    def __init__(
        self,
        exchange: ExchangeState,
        finished: TraceBuffer,
        new_span_id: Callable[[], bytes],
        trace: bytes,
        span: bytes,
        parent: bytes,
    ) -> None:
        """``trace``, ``span``, ``parent``: ids of the trace, of the request's span, and of the caller's, in
        hexadecimal digits; the last is empty where the trace begins here."""
        self._exchange = exchange
        self._finished = finished
        self._new_span_id = new_span_id
        self._trace, self._span, self._parent = trace, span, parent
        self._attempts: list[Attempt] = []
        self._spans: list[AttemptSpan] = []
        """Of these."""
        self._waits: list[tuple[float, float]] = []
        self._queued_at = 0.0
        """0: it does not wait for a slot."""
        self._status = self._pieces = 0
        self._answered_by = ""
        self._end_tap = exchange.client.tap_writes(exchange, self._note)

    def queued(self, now: float) -> None:
        self._queued_at = now

    def attempt_started(self, attempt: Attempt, reason: str) -> None:
        self._end_wait(attempt.started)
        exchange = self._exchange
        if reason.startswith(_STATUS_REASON) and self._spans:
            self._spans[-1].status = int(reason.removeprefix(_STATUS_REASON))
        elif not reason and self._spans:
            fallen = exchange.fallen_back
            reason = "moved" if fallen is None else fallen.cause
        self._begin(attempt, reason)
        self.sends(attempt)

    def second_started(self, attempt: Attempt, reason: str) -> None:
        self._begin(attempt, reason)

    def _begin(self, attempt: Attempt, reason: str) -> None:
        self._attempts.append(attempt)
        self._spans.append(AttemptSpan(attempt, self._new_span_id(), reason))

    def sends(self, attempt: Attempt) -> None:
        span = self._spans[self._attempts.index(attempt)]
        self._exchange.continue_trace(parent_field(self._trace, span.span_id))

    def second_ended(self, result: str, attempt: Attempt | None = None) -> None:
        """The attempt itself says how it has ended."""

    def completed(self, ending: Ending, code: str = "", usage: tuple[int, int] | None = None) -> None:
        exchange, now = self._exchange, monotonic()
        # Otherwise an idle connection would hold the whole exchange in memory.
        self._end_tap()
        exchange.record_with(None)
        self._attempts.clear()
        self._end_wait(now)
        if self._spans and ending in _OF_REPLICA:
            last = next((span for span in reversed(self._spans) if span.is_open), self._spans[-1])
            last.status = last.status or self._status
        head, pool, response = exchange.head, exchange.pool, exchange.streaming_response
        fallen = exchange.fallen_back
        output, prompt = (0, 0) if response is None else response.used()
        if usage is not None:
            output, prompt = usage[0], usage[1] - usage[0]
        self._finished.add(
            FinishedTrace(
                trace_id=self._trace,
                span_id=self._span,
                parent_id=self._parent,
                unix_offset_ns=time_ns() - int(now * 1e9),
                started=exchange.started,
                ended=now,
                first_token=exchange.first_token_came_at,
                waits=self._waits,
                method=head.method[:MAX_TEXT_CHARS].decode("latin-1"),
                path=head.target.partition(b"?")[0][:MAX_TEXT_CHARS].decode("latin-1"),
                scheme=exchange.proxy.scheme.decode(),
                status=self._status,
                ending=ending,
                code=code,
                request_id=exchange.request_id.decode("latin-1"),
                fleet="" if pool is None else pool.name,
                asked_fleet="" if fallen is None else fallen.first.name,
                protocol="" if pool is None else pool.protocol,
                model=self._model()[:MAX_TEXT_CHARS],
                answered_by=self._answered_by[:MAX_TEXT_CHARS],
                stream=exchange.stream,
                input_tokens=prompt,
                output_tokens=output,
                attempts=[span.finished(now) for span in self._spans],
            )
        )

    def _model(self) -> str:
        """That replicas were asked for."""
        exchange, pool = self._exchange, self._exchange.pool
        return exchange.model or ("" if pool is None else pool.served_model or pool.name)

    def _end_wait(self, now: float) -> None:
        if self._queued_at:
            self._waits.append((self._queued_at, max(now, self._queued_at)))
            self._queued_at = 0.0

    def _note(self, data: bytes) -> bool:
        """Look at what is sent to the client. Whether there is more to be seen."""
        if not self._status:
            status = int(data[9:12])  # what comes first begins with a status line
            if status < 200 and status != 101:
                return True
            self._status = status
            if status != 200 or self._exchange.pool is None or self._exchange.pool.protocol != "openai":
                return False
        self._pieces += 1
        self._answered_by = model_of(data)
        return not self._answered_by and self._pieces < _MOST_PIECES
