"""Access log: an exchange that writes a line to it. Used only if there is an access log; else it costs
nothing.

All calls of the exchange to its client go through :class:`LoggedClient`, which therefore sees each way in
which a request can end.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any

from routing.http.interfaces import Client
from routing.http.limits import BodyLimits
from routing.http.request_head import RequestHead
from routing.http.trace_context import trace_id
from routing.ipc.access_log import MAX_PATH_CHARS, AccessLine, AccessLog, now
from routing.proxy.exchange.authenticated_exchange import AuthenticatedExchange
from routing.proxy.exchange.exchange import Exchange
from routing.proxy.exchange.exchange_context import ExchangeContext


class LoggedExchange(Exchange):
    """Keeps what its line needs in its :class:`LoggedClient`."""

    __slots__ = ()

    def __init__(self, proxy: ExchangeContext, log: AccessLog, client: Client, head: RequestHead) -> None:
        logged = LoggedClient(client, self, log)
        super().__init__(proxy, logged, head)

    def _start_attempt(self, *attempt: Any, **how: Any) -> None:
        super()._start_attempt(*attempt, **how)
        if self.attempt is not None:
            client = self.client
            assert isinstance(client, LoggedClient)
            client.tries += 1
            client.replica = self.attempt.replica.name

    def on_local_reply(self, code: str) -> None:
        assert isinstance(self.client, LoggedClient)
        self.client.code = code

    def client_gone(self) -> None:
        super().client_gone()
        assert isinstance(self.client, LoggedClient)
        self.client.leave_line("client_left")


class LoggedAuthenticatedExchange(LoggedExchange, AuthenticatedExchange):
    """The same for an exchange that requires a client key."""

    __slots__ = ()


class LoggedClient:
    """A client's connection during one exchange; records what was sent to it."""

    __slots__ = (
        "_client",
        "_exchange",
        "_log",
        "_write",
        "_write_at_once",
        "code",
        "first_byte_at",
        "replica",
        "sent",
        "status",
        "tries",
        "write",
    )

    def __init__(self, client: Client, exchange: LoggedExchange, log: AccessLog) -> None:
        self._client = client
        self._exchange = exchange
        self._log = log
        self._write = self._write_at_once = client.write
        self.write: Callable[[bytes], None] = self._noted
        self.status = 0
        self.sent = 0
        self.first_byte_at: float | None = None
        self.code = ""
        """Of the error that the proxy answered."""
        self.replica = ""
        """Asked last."""
        self.tries = 0

    def _noted(self, data: bytes) -> None:
        self.sent += len(data)
        if not self.status:
            status = int(data[9:12])  # what comes first begins with a status line
            if status >= 200 or status == 101:
                self.status = status
                self.first_byte_at = monotonic()
        self._write(data)

    def _noted_at_once(self, data: bytes) -> None:
        self.sent += len(data)
        self._write_at_once(data)

    def finish(self, now: float, keep: bool) -> None:
        # Before, because the connection may begin the next request in there.
        self.leave_line("error" if self.code else "answered" if self.tries else "local")
        self._client.finish(now, keep)

    def abort(self, reset: bool = False) -> None:
        self.leave_line("cut")
        self._client.abort(reset)

    def leave_line(self, outcome: str) -> None:
        """The request has ended."""
        exchange, first, ended = self._exchange, self.first_byte_at, monotonic()
        head, began = exchange.head, exchange.started
        self._log.add(
            AccessLine(
                time=now(),
                request_id=exchange.request_id.decode("latin-1"),
                trace_id=trace_id(head.trace, exchange.trace).decode(),
                client=self.peer.decode("latin-1"),
                method=head.method.decode("latin-1"),
                path=head.target.partition(b"?")[0][:MAX_PATH_CHARS].decode("latin-1"),
                fleet="" if exchange.pool is None else exchange.pool.name,
                replica=self.replica,
                status=self.status,
                outcome=outcome,
                code=self.code,
                retries=max(self.tries - 1, 0),
                bytes=self.sent,
                first_byte_ms=None if first is None else round((first - began) * 1000, 3),
                ms=round((ended - began) * 1000, 3),
            )
        )

    @property
    def peer(self) -> bytes:
        return self._client.peer

    @peer.setter
    def peer(self, value: bytes) -> None:
        self._client.peer = value

    @property
    def forwarding_fields(self) -> bytes:
        return self._client.forwarding_fields

    @forwarding_fields.setter
    def forwarding_fields(self, value: bytes) -> None:
        self._client.forwarding_fields = value

    @property
    def head_s(self) -> float:
        return self._client.head_s

    @property
    def write_paused(self) -> bool:
        return self._client.write_paused

    @property
    def busy(self) -> bool:
        return self._client.busy

    @property
    def request_is_complete(self) -> bool:
        return self._client.request_is_complete

    def unbatched_write(self) -> Callable[[bytes], None]:
        self._write_at_once = self._client.unbatched_write()
        return self._noted_at_once

    def may_keep_alive(self, complete: bool) -> bool:
        return self._client.may_keep_alive(complete)

    def pause_body(self) -> None:
        self._client.pause_body()

    def resume_body(self) -> None:
        self._client.resume_body()

    def set_body_limits(self, limits: BodyLimits) -> None:
        self._client.set_body_limits(limits)

    def open_tunnel(self) -> None:
        self._client.open_tunnel()

    def close_if_idle(self) -> None:
        self._client.close_if_idle()

    def drain(self, now: float, quiet_s: float) -> bool:
        return self._client.drain(now, quiet_s)

    def tap_writes(self, listener: Callable[[bytes], bool]) -> None:
        self._client.tap_writes(listener)
        self._write = self._client.write

    def clear_head_cache(self) -> None:
        self._client.clear_head_cache()
