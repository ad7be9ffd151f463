"""Access log record: collects one exchange's line of the access log. Used only if there is an access log.

A write tap shows it the bytes that are sent to the client.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import TypeVar

from routing.balancing.pool.pool import Attempt
from routing.http.interfaces import Client
from routing.http.request_head import RequestHead
from routing.http.trace_context import trace_id
from routing.ipc.access_log import MAX_PATH_CHARS, AccessLine, AccessLog, now
from routing.proxy.exchange.client_address import client_address
from routing.proxy.exchange.exchange_context import ExchangeContext
from routing.proxy.exchange.state import Ending, ExchangeState

_Exchange = TypeVar("_Exchange", bound=ExchangeState)


def logged(
    make: Callable[[ExchangeContext, Client, RequestHead], _Exchange],
    log: AccessLog,
    proxy: ExchangeContext,
    client: Client,
    head: RequestHead,
) -> _Exchange:
    """An exchange that writes a line to the access log."""
    exchange = make(proxy, client, head)
    exchange.record_with(AccessRecord(exchange, log))
    return exchange


class AccessRecord:
    """The record of one exchange, until it has ended."""

    __slots__ = (
        "_end_tap",
        "_exchange",
        "_first_byte_at",
        "_log",
        "_replica",
        "_second",
        "_sent",
        "_status",
        "_tries",
    )

    def __init__(self, exchange: ExchangeState, log: AccessLog) -> None:
        self._exchange = exchange
        self._log = log
        self._status = 0
        self._sent = 0
        self._first_byte_at: float | None = None
        self._replica = ""
        """Name of the replica of the last attempt."""
        self._second = ""
        """What became of the last second attempt; empty: there was none."""
        self._tries = 0
        self._end_tap = exchange.client.tap_writes(exchange, self._note)

    def queued(self, now: float) -> None:
        """The line has the time of the whole request."""

    def attempt_started(self, attempt: Attempt, reason: str) -> None:
        self._tries += 1
        self._replica = attempt.replica.name

    def second_started(self, attempt: Attempt, reason: str) -> None:
        self._tries += 1

    def sends(self, attempt: Attempt) -> None:
        """All attempts of a request have the same id of a trace."""

    def second_ended(self, result: str, attempt: Attempt | None = None) -> None:
        self._second = result
        if attempt is not None:
            self._replica = attempt.replica.name

    def completed(self, ending: Ending, code: str = "", usage: tuple[int, int] | None = None) -> None:
        """Write the line."""
        exchange, first, ended = self._exchange, self._first_byte_at, monotonic()
        # Otherwise an idle connection would hold the whole exchange in memory.
        self._end_tap()
        exchange.record_with(None)
        head, began, fallen = exchange.head, exchange.started, exchange.fallen_back
        self._log.add(
            AccessLine(
                time=now(),
                request_id=exchange.request_id.decode("latin-1"),
                trace_id=trace_id(head.trace, exchange.trace).decode(),
                client=client_address(exchange.client, head).decode("latin-1"),
                method=head.method.decode("latin-1"),
                path=head.target.partition(b"?")[0][:MAX_PATH_CHARS].decode("latin-1"),
                fleet="" if exchange.pool is None else exchange.pool.name,
                replica=self._replica,
                status=self._status,
                outcome=ending,
                code=code,
                retries=max(self._tries - 1, 0),
                second=self._second,
                fallback="" if fallen is None else fallen.cause,
                asked_fleet="" if fallen is None else fallen.first.name,
                continued=0 if exchange.streaming_response is None else exchange.streaming_response.continued,
                bytes=self._sent,
                first_byte_ms=None if first is None else round((first - began) * 1000, 3),
                ms=round((ended - began) * 1000, 3),
            )
        )

    def _note(self, data: bytes) -> bool:
        self._sent += len(data)
        if not self._status:
            status = int(data[9:12])  # what comes first begins with a status line
            if status >= 200 or status == 101:
                self._status = status
                self._first_byte_at = monotonic()
        return True
