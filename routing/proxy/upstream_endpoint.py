"""Upstream endpoint: a worker's HTTP state of a replica, its connections and ready-made bytes."""

import asyncio
from collections.abc import Callable

from routing.balancing.replica.state import Replica
from routing.contract.table import Tls
from routing.http.upstream_pool import ConnectListener, UpstreamPool

NO_CREDENTIAL = "credential_missing"
ASK_LOAD = b"\r\nendpoint-load-metrics-format: TEXT"
"""Triton and vLLM report their load in the response to a request with this (ORCA); others ignore it."""


class UpstreamEndpoint:
    """Lives in ``replica.endpoint``."""

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
        """And Authorization, where the replica has a credential, and the question for its load."""
        self._authorization = self._load_line = b""
        self.has_credential = False
        """Whether a client's own Authorization makes way for it."""
        self.response_fields = response_fields
        """Of every response (:func:`routing.proxy.exchange.response_headers.replica_fields`)."""

    def verify_by(self, tls: Tls) -> None:
        verification = self._pool.verification
        assert verification is not None
        self._pool.verify_by(verification.under(tls))

    def set_credential(self, value: bytes) -> None:
        """What stands in Authorization from now on; nothing: the client's own, if it sends one."""
        self.has_credential = bool(value)
        self._authorization = b"\r\nAuthorization: " + value if value else b""
        self._join()
        self.pool = self._pool

    def ask_load(self, asks: bool) -> None:
        """Whether each request asks the replica for its load."""
        self._load_line = ASK_LOAD if asks else b""
        self._join()

    def _join(self) -> None:
        self.host_line = self._host_line + self._load_line + self._authorization

    def disable(self, problem: str) -> None:
        """The replica's credential cannot be read."""
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
