"""Connect check (TCP health check): whether anything listens where a request has found no connection.

Theory. A killed process is known by its closed port long before five failures have come together: strategies
avoid a replica after the first. So a request that is refused has another connection tried at once, and one
whose connection broke a moment later, if there is no other connection to that replica: a process that is
being killed drops its connections first, and accepts for a moment longer. If the check fails as well, the
replica is ejected. Then the check is repeated each second. When it succeeds a probe request is due at once.

A certificate that is not accepted is as certain, and heals no sooner: it is treated alike, and so is anything
else by which a TLS handshake always fails, and an address that the policy denies, which is never dialled. A
handshake that breaks off may be load, as any lost connection.

Nothing is sent. A check says that a replica cannot be reached, never that it is well. One that times out
counts only if nothing was heard from the replica meanwhile: a full backlog is load. It has time for a SYN to
be sent again that a host without CPU has dropped: that takes a second (RFC 6298). It does not count either
where this process was held itself, so that it could not see the connection made.

A replica is also checked when it closes its last connection to this worker while that is idle. A killed
process is seen so although nothing was sent to it. A server that closes idle connections early is connected
to once each time.

Source: HAProxy's and Envoy's TCP health checks, begun by HAProxy's ``on-error`` and ``observe``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic

from routing.balancing.outlier import ejection
from routing.balancing.pool.pool import Pool
from routing.balancing.replica.state import Replica
from routing.http.upstream_connection import UpstreamConnection
from routing.http.upstream_pool import ADDRESS_DENIED, NOT_VERIFIED, UNREACHABLE
from routing.proxy.upstream_endpoint import UpstreamEndpoint
from routing.tls.errors import CLOSED_IN_HANDSHAKE

AGAIN_S = 1.0
AT_LEAST_S = 2.0
"""How long a check waits for its connection, where ``connect_s`` is shorter."""
REST_S = 0.2
LATE_S = 0.25
"""A timer that is so late has waited for this process. Another such time is given to the connection."""
AFTER_LOSS_S = (0.05, 0.2, 0.5)
"""Waits before the checks after a lost connection, until one fails."""
AFTER_IDLE_S = (0.3,)
"""The same after an idle connection was closed."""


class ConnectChecks:
    """Of all replicas of one worker; one at a time of each."""

    __slots__ = ("_endpoint_of", "_loop", "_running")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, endpoint_of: Callable[[Replica], UpstreamEndpoint]
    ) -> None:
        self._loop = loop
        self._endpoint_of = endpoint_of
        self._running: dict[Replica, ConnectCheck] = {}

    def refused(self, pool: Pool, replica: Replica) -> None:
        """A request has found no connection."""
        check = self._running.get(replica)
        if check is None:
            self._begin(pool, replica, ()).look()
        else:
            check.hasten()

    def lost(self, pool: Pool, replica: Replica) -> None:
        """A request has lost its connection."""
        if replica not in self._running:
            self._begin(pool, replica, AFTER_LOSS_S).wait()

    def idle_closed(self, pool: Pool, replica: Replica) -> None:
        """The replica has closed the last connection to it, which was idle."""
        if replica not in self._running and not replica.leaving:
            self._begin(pool, replica, AFTER_IDLE_S).wait()

    def _begin(self, pool: Pool, replica: Replica, waits: tuple[float, ...]) -> ConnectCheck:
        check = ConnectCheck(self._loop, pool, replica, self._endpoint_of(replica), waits, self._end)
        self._running[replica] = check
        return check

    def _end(self, replica: Replica) -> None:
        self._running.pop(replica, None)


class ConnectCheck:
    """Of one replica, from the first suspicion until it is reached
    (:class:`routing.http.upstream_pool.ConnectListener`)."""

    __slots__ = (
        "_began",
        "_cancel",
        "_due",
        "_end",
        "_endpoint",
        "_loop",
        "_pool",
        "_replica",
        "_rests",
        "_succeeded",
        "_timer",
        "_waits",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        pool: Pool,
        replica: Replica,
        endpoint: UpstreamEndpoint,
        waits: tuple[float, ...],
        end: Callable[[Replica], None],
    ) -> None:
        """``waits``: before each of the next checks. ``end``: called when there is no more to find out."""
        self._loop = loop
        self._pool = pool
        self._replica = replica
        self._endpoint = endpoint
        self._waits = waits
        self._end = end
        self._began = self._due = 0.0
        """When the present check began, and when it times out."""
        self._succeeded = 0
        """The replica's successes by then."""
        self._cancel: Callable[[], object] | None = None
        """Cancels the connection that is being opened; ``None``: none is."""
        self._timer: asyncio.TimerHandle | None = None
        self._rests = False
        """It has failed and nothing follows from that, so that it is not to be repeated for each request."""

    def wait(self) -> None:
        """Check after the next wait, or end."""
        if not self._waits:
            self._end(self._replica)
            return
        wait_s, *rest = self._waits
        self._waits = tuple(rest)
        self._timer = self._loop.call_later(wait_s, self.look)

    def hasten(self) -> None:
        """Check now."""
        if self._cancel is None and not self._rests:
            self._stop_timer()
            self.look()

    def look(self) -> None:
        """Open a connection, unless there is one."""
        self._timer = None
        if self._replica.leaving or (self._waits and self._endpoint.is_connected):
            self._end(self._replica)
            return
        self._began = monotonic()
        self._succeeded = self._replica.succeeded
        self._await_until(self._began + self._within_s, self._began)
        self._cancel = self._endpoint.pool.connect(self)

    def _await_until(self, due: float, now: float) -> None:
        self._due = due
        self._timer = self._loop.call_later(due - now, self._timed_out)

    def connected(self, upstream: UpstreamConnection) -> None:
        self._answered()
        upstream.close()
        self._reached()

    def connect_failed(self, reason: str, code: str) -> None:
        self._answered()
        if code == UNREACHABLE:
            self._failed(f"nothing listens at {self._authority}: {reason}")
        elif code == NOT_VERIFIED and reason != CLOSED_IN_HANDSHAKE:
            self._failed(f"{self._authority} is not verified: {reason}", ejection.NOT_VERIFIED)
        elif code == ADDRESS_DENIED:
            self._failed(f"nothing is sent to {self._authority}: {reason}", ejection.DENIED)
        else:
            # It listens, or nothing may be sent there: this is said elsewhere.
            self._reached()

    def connect_prevented(self, reason: str, code: str) -> None:
        self._answered()
        self._end(self._replica)

    def _reached(self) -> None:
        self._pool.reachable(self._replica, monotonic())
        self.wait()

    def _timed_out(self) -> None:
        assert self._cancel is not None
        now = monotonic()
        if now - self._due > LATE_S:
            self._await_until(now + LATE_S, now)
            return
        self._cancel()
        self._answered()
        if self._was_heard():
            self.wait()
        else:
            why = self._endpoint.waits_for
            self._failed(f"no connection to {self._authority} within {self._within_s:g} s{why}")

    def _was_heard(self) -> bool:
        """Whether any byte has come from the replica during the check."""
        now = monotonic()
        old, silent = self._endpoint.silent_requests(now, now - self._began)
        return self._replica.succeeded > self._succeeded or silent < old

    @property
    def _within_s(self) -> float:
        return max(self._pool.policy.timeouts.connect_s, AT_LEAST_S)

    @property
    def _authority(self) -> str:
        return self._replica.address.authority.decode()

    def _failed(self, words: str, cause: int = ejection.UNREACHABLE) -> None:
        again_s = AGAIN_S + self._within_s + 2 * LATE_S
        self._pool.unreachable(self._replica, words, monotonic(), cause, again_s)
        if self._replica.ejection.until and not self._replica.leaving:
            self._waits = (AGAIN_S,)
            self.wait()
        else:
            self._rests = True
            self._timer = self._loop.call_later(REST_S, self._end, self._replica)

    def _answered(self) -> None:
        self._cancel = None
        self._stop_timer()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
