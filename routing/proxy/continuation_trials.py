"""Trials of continuation: whether each replica continues what another has begun, found out by small requests.

Where a fleet's policy continues answers, each worker tries each of its replicas, with at most four requests
of one token, and again from time to time, for what listens at an address may be another server by then. A
trial takes no client's place: it is sent to a replica that is eligible and has nothing to do, or has room for
several more, and only while nobody waits. It is no request of the fleet, and counts nowhere.

What it finds stands in the replica's state and in ``/status``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from time import monotonic

from routing.balancing.pool.pool import Pool
from routing.balancing.pool.table import Table
from routing.balancing.replica.state import Replica
from routing.http.response_handler import Passthrough
from routing.http.response_head import ResponseHead
from routing.http.upstream_connection import UpstreamConnection
from routing.protocols.continuation import trial
from routing.protocols.continuation.next_request import CHAT
from routing.proxy.exchange.continuation.targets import prefill_of
from routing.proxy.upstream_endpoint import UpstreamEndpoint

log = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0
AT_ONCE = 4
"""Trials at once in one worker."""
PASSED_FOR_S, FAILED_FOR_S, UNKNOWN_FOR_S = 600.0, 120.0, 5.0
"""After so long a replica is tried again: one that passed, one that did not, one that gave no answer."""
TIMEOUT_S = 30.0
_ROOM = 2
"""Free slots of a replica that is at work: one is left to clients."""
_MOST_BYTES = 65_536
_HEAD = (
    b"POST%b%b%b\r\nUser-Agent: switchyard-trial\r\nContent-Type: application/json"
    b"\r\nContent-Length: %d\r\n\r\n%b"
)


class ContinuationTrials:
    """Those of one worker."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        table: Table,
        endpoint_of: Callable[[Replica], UpstreamEndpoint],
    ) -> None:
        self._loop = loop
        self._table = table
        self._endpoint_of = endpoint_of
        self._timer: asyncio.TimerHandle | None = None
        self.running: dict[Replica, Trial] = {}

    def follow(self, pool: Pool) -> None:
        """After a new table: look at its replicas soon, if its policy continues answers."""
        if pool.policy.continuation == "auto" and self._timer is None:
            self._timer = self._loop.call_later(0.0, self._look)

    def _look(self) -> None:
        self._timer = None
        now = monotonic()
        continues = False
        for pool in self._table.fleets.values():
            if pool.policy.continuation != "auto" or pool.protocol != "openai":
                continue
            continues = True
            for replica in pool.replicas:
                if len(self.running) >= AT_ONCE:
                    break
                if (
                    replica.continuation.due <= now
                    and replica not in self.running
                    and has_room(pool, replica)
                ):
                    self.running[replica] = begun = Trial(
                        self._loop, pool, replica, self._endpoint_of(replica), self.running.pop
                    )
                    begun.begin()
        if continues:
            self._timer = self._loop.call_later(LOOK_EVERY_S, self._look)


def has_room(pool: Pool, replica: Replica) -> bool:
    """Whether a trial there takes no client's place."""
    spec = replica.spec
    if spec.admin_state != "active" or spec.health != "ready" or replica.ejection.until or replica.leaving:
        return False
    if pool.admission.anybody_waits or replica.security.no_credential or replica.memory is not None:
        return False
    busy = replica.in_flight + replica.peer_in_flight
    return not busy or replica.limit is None or replica.limit - busy >= _ROOM


class Trial:
    """Of one replica (:class:`routing.http.response_handler.ResponseHandler`)."""

    asks_for_web_socket = False

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        pool: Pool,
        replica: Replica,
        endpoint: UpstreamEndpoint,
        end: Callable[[Replica], object],
    ) -> None:
        model = pool.served_model or pool.name
        prefill = prefill_of(pool)
        self._fleet = pool.name
        self._replica = replica
        self._endpoint = endpoint
        self._end = end
        self._steps: list[trial.Step] = [trial.completion_step(model)]
        if prefill:
            self._steps += trial.chat_steps(model, prefill)
        self._path = b""
        self._upstream: UpstreamConnection | None = None
        self._cancel: Callable[[], object] | None = None
        self._status = 0
        self._body = b""
        self._completions: bool | None = None
        self._chats: bool | None = None if prefill else False
        self._answers: list[bytes] = []
        self._echoes = False
        self._why = "" if prefill else "how this kind of server continues chats is not known"
        self._timer = loop.call_later(TIMEOUT_S, self._fail, f"no answer within {TIMEOUT_S:g} s")

    def begin(self) -> None:
        self._cancel = self._endpoint.pool.connect(self)

    # As an asker for a connection, and as the handler of what it brings.

    def connected(self, upstream: UpstreamConnection) -> None:
        self._cancel = None
        self._upstream = upstream
        self._path, body = self._steps.pop(0)
        endpoint = self._endpoint
        parts = (endpoint.before_target, self._path, endpoint.host_line, len(body), body)
        upstream.send(self, _HEAD % parts, False, False)

    def connect_failed(self, reason: str, code: str) -> None:
        self._cancel = None
        self._fail(reason)

    def connect_prevented(self, reason: str, code: str) -> None:
        self.connect_failed(reason, code)

    def informational(self, head: ResponseHead) -> None:
        pass

    def response(self, head: ResponseHead, body: bytes, complete: bool, now: float) -> None:
        self._status = head.status
        self._body = b""
        self.data(body, complete, now)

    def switched(self, head: ResponseHead, first: bytes, now: float) -> None:
        raise AssertionError("it was not asked for")

    def data(self, piece: bytes, complete: bool, now: float) -> None:
        self._body += piece
        if complete:
            self._upstream = None
            self._take()
        elif len(self._body) > _MOST_BYTES:
            self._fail("its answer is too long")

    def passthrough(self) -> Passthrough | None:
        return None

    def lost(self, reason: str, no_response_yet: bool) -> None:
        self._upstream = None
        self._fail(reason)

    def waiting_since(self) -> None:
        return None

    def replica_lost(self, reason: str, *, in_any_case: bool) -> None:
        if self._upstream is not None:
            self._upstream.give_up(reason)

    def taken_for_lost(self) -> None:
        pass

    def replica_paused(self, paused: bool) -> None:
        pass

    # What it shows.

    def _take(self) -> None:
        status = self._status
        if status >= 500 or status in (408, 429):
            self._fail(f"{self._path.decode()} was answered with {status}")
            return
        if self._path != CHAT:
            self._completions = status == 200
            self._note("" if status == 200 else f"{self._path.decode()} was answered with {status}")
        elif status != 200:
            self._chats = False
            self._note(f"{self._path.decode()} was answered with {status}")
            self._steps.clear()
        else:
            self._answers.append(self._body)
            if not self._steps:
                shown = trial.shown_by(self._answers)
                self._chats, self._echoes = not shown.why_not, shown.echoes
                self._note(shown.why_not)
        if self._steps:
            self.begin()
        else:
            self._conclude()

    def _note(self, why: str) -> None:
        self._why = "; ".join(filter(None, (self._why, why)))

    def _conclude(self) -> None:
        known = self._replica.continuation
        before = known.words()
        known.chats, known.completions, known.why = self._chats, self._completions, self._why
        known.echoes = self._echoes
        known.due = monotonic() + (PASSED_FOR_S if self._chats and self._completions else FAILED_FOR_S)
        if known.words() != before:
            log.info("replica %s of fleet %s %s", self._replica.name, self._fleet, known.words())
        self._close()

    def _fail(self, why: str) -> None:
        """There was no answer that says anything."""
        if self._cancel is not None:
            self._cancel()
        if self._upstream is not None:
            self._upstream.discard()
        known = self._replica.continuation
        known.why = why
        known.due = monotonic() + UNKNOWN_FOR_S
        self._close()

    def _close(self) -> None:
        self._timer.cancel()
        self._end(self._replica)
