"""Simulated proxy: the real pool, and around it what an exchange does with it.

:class:`SimulatedExchange` follows :mod:`routing.proxy.exchange.upstream_exchange`, without its bytes: begin,
wait if there is no free slot, send, settle; retry within the retry budget if the connection failed or broke
before a response; late if the client's time limit passes. All requests may be sent twice.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from math import inf

from routing.balancing.admission.admission_queue import LOOK_EVERY_S, AdmissionQueue
from routing.balancing.admission.rejection import Rejection
from routing.balancing.admission.ticket import Ticket
from routing.balancing.attempt.outcome import Outcome
from routing.balancing.pool.due_pick import Due
from routing.balancing.pool.pool import ANY_SLOT, DEQUEUED, Attempt, Pool
from routing.balancing.replica.state import Replica
from routing.contract.table import FleetSnapshot
from routing.simulator.connections import Connections
from routing.simulator.engine import Engine
from routing.simulator.nodes import Node
from routing.simulator.requests import END_OF, FAILED, LATE, REFUSED, Request

_COMPLETE = (Outcome.SUCCESS, Outcome.FAILED)
"""Outcomes of a response that came to its end, so that its connection can be used again."""
MAX_RETRIES = 2
"""As :mod:`routing.proxy.exchange.retry_policy` has it, which a test compares."""


class SimulatedProxy:
    """One proxy with one worker, or one worker of a proxy; it also calls those that wait
    (:class:`routing.balancing.admission.admission_queue.QueueWaker`)."""

    def __init__(
        self,
        engine: Engine,
        pool: Pool,
        nodes: Mapping[str, Node],
        site: str = "",
        away_s: Mapping[str, float] | None = None,
        connections: Connections | None = None,
        knows_due: bool = True,
    ) -> None:
        """``nodes``: by the replicas' uids. ``away_s``: how far those are that are not at hand.
        ``connections``: where opening one takes time. ``knows_due``: whether it is told when requests are
        due."""
        self.engine = engine
        self.nodes = nodes
        self.site = site
        self.away_s = away_s or {}
        self.connections = connections
        self.knows_due = knows_due
        self.pool = pool
        self.workers: Sequence[SimulatedProxy] = (self,)
        """Those of the same proxy, by their numbers."""
        pool.admission.waker = self
        self._soon = False
        self._ticking = False

    def arrive(self, request: Request) -> None:
        """A client's request has arrived. Its result is written into it."""
        self.pool.request_seen()
        SimulatedExchange(self, request).begin(self.engine.now)

    def replace(self, snapshot: FleetSnapshot) -> None:
        """There is a new table from the control plane."""
        self.pool.replace(snapshot)

    def serve_soon(self, admission: AdmissionQueue) -> None:
        if not self._soon:
            self._soon = True
            self.engine.at(self.engine.now, self._look)

    def wake(self, worker: int) -> None:
        self.workers[worker].serve_soon(self.workers[worker].pool.admission)

    def _look(self) -> None:
        self._soon = False
        admission = self.pool.admission
        admission.serve(self.engine.now)
        if len(admission.queue) and not self._ticking:
            self._ticking = True
            self.engine.at(self.engine.now + LOOK_EVERY_S, self._tick)

    def _tick(self) -> None:
        admission = self.pool.admission
        admission.serve(self.engine.now, yields=False)
        self._ticking = len(admission.queue) > 0
        if self._ticking:
            self.engine.at(self.engine.now + LOOK_EVERY_S, self._tick)


def hashes(pool: Pool, request: Request) -> tuple[int, ...]:
    """What a strategy goes by. Where it reads prompts block by block, the key is the blocks' names, 8 bytes
    each."""
    affinity = pool.affinity
    if affinity is None:
        return ()
    if affinity.block_bytes:
        return affinity._replace(block_bytes=8).hashes(request.key)
    return affinity.hashes(request.session or request.key)


class SimulatedExchange:
    """One request at one proxy: gets the server's events, and waits in the queue."""

    __slots__ = ("_attempt", "_due", "_key", "_node", "_proxy", "_request", "_ticket", "_tried")

    def __init__(self, proxy: SimulatedProxy, request: Request) -> None:
        self._proxy = proxy
        self._request = request
        self._attempt: Attempt | None = None
        self._key: tuple[int, ...] = ()
        self._due: Due | None = None
        self._node: Node
        self._ticket: Ticket | None = None
        self._tried: tuple[Replica, ...] = ()

    def begin(self, now: float) -> None:
        request = self._request
        if request.key:
            self._key = hashes(self._proxy.pool, request)
        first_token_s = self._proxy.pool.first_token_s if request.output_tokens else 0.0
        if self._proxy.knows_due and (request.deadline_s < inf or first_token_s):
            self._due = Due(now + request.deadline_s, now + first_token_s if first_token_s else inf)
        if request.deadline_s < inf:
            self._proxy.engine.at(now + request.deadline_s, self._client_leaves)
        self._try(now)

    # --- attempts ------------------------------------------------------------------------------------

    def _try(self, now: float, again: bool = False) -> None:
        """``again``: after a failed attempt, which is what its client gets in the end."""
        pool = self._proxy.pool
        found = pool.begin(self._request.estimate, now, self._tried, key=self._key, due=self._due)
        if isinstance(found, Attempt):
            self._send(found, now)
        elif not found.max_wait_s or not self._line_up(found, now):
            self._end(FAILED if again else REFUSED, now)

    def _send(self, attempt: Attempt, now: float) -> None:
        self._attempt = attempt
        replica, request, proxy = attempt.replica, self._request, self._proxy
        request.sent_s = now
        request.replica = replica.name
        request.attempts += 1
        self._node = proxy.nodes[replica.uid]
        if proxy.connections is not None and (wait_s := proxy.connections.take(self._node, now)):
            proxy.engine.at(now + wait_s, partial(self._connected, attempt))
        else:
            self._sent()

    def _connected(self, attempt: Attempt) -> None:
        """Unless its client has left meanwhile."""
        if self._attempt is attempt:
            attempt.connection_opened(self._proxy.engine.now)
            self._sent()

    def _sent(self) -> None:
        node, proxy = self._node, self._proxy
        node.begin(self._request, self, proxy.away_s.get(node.site, 0.0) if proxy.away_s else 0.0)

    def _end(self, end: str, now: float) -> None:
        self._request.end = end
        self._request.ended_s = now

    def _client_leaves(self) -> None:
        request, now = self._request, self._proxy.engine.now
        if request.end:
            return
        if self._ticket is not None:
            self._proxy.pool.admission.leave(self._ticket)
            self._ticket = None
        attempt, self._attempt = self._attempt, None
        if attempt is not None:
            self._node.cancel(request, self._proxy.away_s.get(self._node.site, 0.0))
            attempt.settle(Outcome.CANCELLED, now)
        self._end(LATE, now)

    # --- events of the server --------------------------------------------------------------------------

    def first_byte(self, now: float) -> None:
        if self._attempt is not None:
            self._request.first_byte_s = now
            self._attempt.first_byte(now)

    def tokens(self, now: float, count: int) -> None:
        if self._attempt is not None:
            self._request.tokens += count
            self._attempt.heard(now, count)

    def ended(self, now: float, outcome: Outcome) -> None:
        attempt = self._attempt
        if attempt is None:
            return
        self._attempt = None
        request, connections = self._request, self._proxy.connections
        if connections is not None and outcome in _COMPLETE:
            connections.give_back(self._node, now)
        at_once = request.first_byte_s == inf
        attempt.settle(outcome, now, request.tokens, at_once=at_once and outcome is not Outcome.REFUSED)
        if self._may_go_elsewhere(attempt, outcome, at_once):
            self._try(now, again=True)
            return
        if at_once:
            request.first_byte_s = now
        self._end(END_OF.get(outcome, FAILED), now)

    def _may_go_elsewhere(self, attempt: Attempt, outcome: Outcome, untouched: bool) -> bool:
        """Where it was not sent at all, or was lost before any answer; that only once."""
        if outcome is not Outcome.REFUSED and not (outcome is Outcome.LOST and untouched):
            return False
        if len(self._tried) >= MAX_RETRIES:
            return False
        pool = self._proxy.pool
        if not pool.retry_allowed(never_sent=outcome is Outcome.REFUSED):
            return False
        pool.counters.retries += 1
        self._tried = (*self._tried, attempt.replica)
        return True

    # --- waiting for a place (routing.balancing.admission.ticket.Waiter)
    # -------------------------------------

    def _line_up(self, refusal: Rejection, now: float) -> bool:
        request, pool = self._request, self._proxy.pool
        least = min(refusal.max_wait_s, pool.policy.timeouts.total_s, request.at_s + request.deadline_s - now)
        work = pool.speed.estimated(request.estimate)
        ticket = Ticket(self, request.priority, request.at_s, now + least, work, bool(self._tried))
        if pool.admission.join(ticket, refusal.preferred, now) is not None:
            return False
        self._ticket = ticket
        return True

    def admit(self, now: float, patient: bool) -> bool:
        pool, ticket = self._proxy.pool, self._ticket
        assert ticket is not None
        turn = DEQUEUED if patient else ANY_SLOT
        work, since = self._request.estimate, ticket.since
        begin = partial(pool.begin, work, now, self._tried, turn, since, self._key, self._due)
        found = pool.admission.look(ticket, begin)
        if isinstance(found, Rejection) and found.max_wait_s:
            return False
        self._ticket = None
        if isinstance(found, Rejection):
            pool.admission.leave(ticket)
            self._end(REFUSED, now)
        else:
            pool.admission.found(ticket, now)
            self._send(found, now)
        return True

    def timed_out(self, now: float) -> None:
        """The queue timeout has passed."""
        self._ticket = None
        self._end(REFUSED, now)

    preempted = timed_out
