"""Upstream endpoint: the HTTP side of a replica in one worker: its connection pool and ready-made bytes."""

import asyncio
from collections.abc import Callable
from math import inf

from routing.balancing.replica.state import Replica
from routing.contract.table import Tls
from routing.http.response_handler import ResponseHandler
from routing.http.upstream_pool import ConnectListener, UpstreamPool

NO_CREDENTIAL = "credential_missing"
ASK_LOAD = b"\r\nendpoint-load-metrics-format: TEXT"
"""Triton and vLLM report their load in the response to a request with this (ORCA); others ignore it."""


class UpstreamEndpoint:
    """It is stored in ``replica.endpoint``."""

    __slots__ = (
        "_authorization",
        "_host_line",
        "_load_line",
        "_pool",
        "before_target",
        "has_credential",
        "host_line",
        "pool",
        "response_fields",
    )

    def __init__(self, replica: Replica, pool: UpstreamPool, response_fields: bytes) -> None:
        self._pool = pool
        self.pool: UpstreamPool | DisabledPool = pool
        self.before_target = b" " + replica.address.path_prefix
        self._host_line = b" HTTP/1.1\r\nHost: " + replica.address.host_field
        self.host_line = self._host_line
        """End of the request line, Host, the request for a load report and the replica's Authorization, if it
        has these."""
        self._authorization = self._load_line = b""
        self.has_credential = False
        """Whether the replica's credential replaces the client's Authorization."""
        self.response_fields = response_fields
        """Added to every response (:func:`routing.proxy.exchange.response_headers.replica_fields`)."""

    def verify_by(self, tls: Tls) -> None:
        verification = self._pool.verification
        assert verification is not None
        self._pool.verify_by(verification.under(tls))

    def set_credential(self, value: bytes) -> None:
        """Set the value of Authorization. Empty: the client's own is forwarded, if it sends one."""
        self.has_credential = bool(value)
        self._authorization = b"\r\nAuthorization: " + value if value else b""
        self._join()
        self.pool = self._pool

    def ask_load(self, asks: bool) -> None:
        """Set whether each request asks the replica for a load report."""
        self._load_line = ASK_LOAD if asks else b""
        self._join()

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection to the replica, idle or in use."""
        return bool(self._pool.open)

    @property
    def waits_for(self) -> str:
        """As of :class:`routing.http.upstream_pool.UpstreamPool`."""
        return self._pool.waits_for

    def handlers(self) -> list[ResponseHandler]:
        """The senders of the requests that are in flight over its connections."""
        return [upstream.handler for upstream in self._pool.open if upstream.handler is not None]

    def silent_requests(
        self, now: float, for_s: float, work_s: float = 0.0, after: float = 0.0
    ) -> tuple[int, int]:
        old = silent = 0
        for upstream in self._pool.open:
            since = None if upstream.handler is None else upstream.handler.waiting_since()
            if since is None:
                continue
            sent, heard, work = since
            limit_s = max(for_s, work * work_s)
            if sent > after and now - sent > limit_s:
                old += 1
                silent += now - heard > limit_s
        return old, silent

    def write_off_silent(self, now: float, for_s: float, work_s: float, before: float) -> int:
        left = 0
        for upstream in list(self._pool.open):
            handler = upstream.handler
            since = None if handler is None else handler.waiting_since()
            if handler is None or since is None or since[0] >= before:
                continue
            left += 1
            if now - since[1] > max(for_s, since[2] * work_s):
                handler.taken_for_lost()
        return left

    def free_requests(self, words: str, *, all_of_them: bool, before: float = inf) -> None:
        # Soon: the caller is in the midst of a pick, which a retry would begin another of.
        asyncio.get_running_loop().call_soon(self._free, words, all_of_them, before)

    def _free(self, words: str, all_of_them: bool, before: float) -> None:
        for upstream in list(self._pool.open):
            handler = upstream.handler
            since = None if handler is None else handler.waiting_since()
            if handler is not None and (before == inf or (since is not None and since[0] < before)):
                handler.replica_lost(words, in_any_case=all_of_them)

    def _join(self) -> None:
        self.host_line = self._host_line + self._load_line + self._authorization

    def disable(self, problem: str) -> None:
        """Send nothing to the replica, because its credential cannot be read."""
        self.pool = DisabledPool(problem)


class DisabledPool:
    """Replaces the connection pool while nothing may be sent: each new connection fails at once."""

    __slots__ = ("_problem",)

    def __init__(self, problem: str) -> None:
        self._problem = problem

    def acquire(self) -> None:
        return None

    def connect(self, asker: ConnectListener) -> Callable[[], bool]:
        """As of :class:`routing.http.upstream_pool.UpstreamPool`."""
        failing = asyncio.get_running_loop().call_soon(asker.connect_failed, self._problem, NO_CREDENTIAL)

        def cancel() -> bool:
            failing.cancel()
            return True

        return cancel
