"""Stream mover: frees replicas that an operator drains with ``move``, stream by stream (connection draining).

Theory. Each move makes another replica read a prompt. So moves have a pace of their own, which is not the
budget of retries: in each worker at most :data:`MOVES_PER_S`, only while nobody waits in the fleet's queue,
and only to a replica that has a free slot, reports no queue of its own, and of those that were moved to it
still owes at most :data:`MOST_UNDER_WAY` their first token. Servers that read prompts slowly are so given
them slowly. Until it is moved, a stream goes on where it is: it loses nothing by waiting.

Looking at requests in flight is for people, too: before a drain they see what could be moved. Each second,
with the worker's report, :meth:`StreamMover.survey` looks at the replicas of fleets that continue streams,
and at those that are to be free. Whether a request is one whose answers can be continued is found out once,
some at a time: :data:`EXAMINED_AT_ONCE`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Generator, Iterator
from time import monotonic

from routing.balancing.pool.pool import Pool
from routing.balancing.pool.table import Table
from routing.balancing.replica.state import Replica
from routing.protocols.continuation.next_request import CHAT, COMPLETION
from routing.proxy.exchange import moving
from routing.proxy.exchange.continuation.continuable_response import ContinuableResponse
from routing.proxy.exchange.continuation.targets import can_continue, prefill_of
from routing.proxy.exchange.upstream_exchange import UpstreamExchange
from routing.proxy.upstream_endpoint import UpstreamEndpoint

log = logging.getLogger(__name__)

MOVES_PER_S = 50
"""In one worker."""
MOST_UNDER_WAY = 4
"""At one replica, from one worker."""
LOOK_EVERY_S = 0.1
"""For more, while something is left at a replica that is to be free."""
IDLE_LOOK_EVERY_S = 1.0
REST_PER_WORK = 4.0
"""So many times as long as a move took, nothing is moved: a long answer takes milliseconds to read."""
MOST_WORK_S = 0.005
"""In one turn of the loop, until one is moved; the last may take longer."""
REPORT_HOLDS_S = 15.0
"""So long it is believed that a replica has a queue of its own."""
EXAMINED_AT_ONCE = 25
"""Requests in one report: some 1 ms."""
LOOKED_AT_ONCE = 500
"""Requests in one step of a survey: some 1 ms."""


class StreamMover:
    """That of one worker."""

    def __init__(self, loop: asyncio.AbstractEventLoop, table: Table) -> None:
        self._loop = loop
        self._table = table
        self._timer: asyncio.TimerHandle | None = None
        self._vacated: dict[Replica, Pool] = {}
        """Replicas that are to be free."""
        self._candidates: deque[tuple[Pool, UpstreamExchange]] = deque()
        self._under_way: list[MoveUnderWay] = []
        self._rests_until = 0.0

    def follow(self, pool: Pool) -> None:
        """After a new table: which of its replicas are to be free."""
        vacated = {replica for replica in pool.replicas if replica.spec.is_vacated}
        for replica in [one for one, its_pool in self._vacated.items() if its_pool is pool]:
            if replica not in vacated:
                del self._vacated[replica]
        for replica in vacated - self._vacated.keys():
            self._vacated[replica] = pool
            replica.moves.begin()
            log.info("replica %s of fleet %s is to be free: its streams are moved", replica.name, pool.name)
        if self._vacated:
            self._candidates.clear()
            self._look_at(self._rests_until)

    def _look_at(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(max(0.0, at - monotonic()), self._look)

    def _look(self) -> None:
        self._timer = None
        try:
            self._look_around()
        except Exception:
            # A bug: the other streams are moved all the same.
            log.exception("a stream could not be moved")
            self._look_at(monotonic() + IDLE_LOOK_EVERY_S)

    def _look_around(self) -> None:
        """Move one stream, if one can be moved."""
        self._vacated = {
            replica: pool
            for replica, pool in self._vacated.items()
            if self._table.fleets.get(pool.name) is pool and not replica.leaving
        }
        self._under_way = [move for move in self._under_way if move.is_under_way]
        if not self._vacated:
            self._candidates.clear()
            self._under_way.clear()
            return
        began = monotonic()
        if not self._candidates:
            self._candidates.extend(
                (pool, exchange)
                for replica, pool in self._vacated.items()
                for exchange in requests_at(replica)
                if not moving.why_it_stays(exchange)
            )
        if not self._candidates:
            left = any(replica.in_flight for replica in self._vacated)
            self._look_at(began + (LOOK_EVERY_S if left else IDLE_LOOK_EVERY_S))
            return
        moved = self._move_one(began)
        now = monotonic()
        # Also where nothing was moved: to see that took its time.
        self._rests_until = now + REST_PER_WORK * (now - began)
        if moved:
            self._rests_until = max(self._rests_until, began + 1.0 / MOVES_PER_S)
        more = moved or bool(self._candidates)
        self._look_at(self._rests_until if more else max(self._rests_until, began + LOOK_EVERY_S))

    def _move_one(self, now: float) -> bool:
        """Whether one of the candidates was moved. The fleets that have no room are left out then."""
        without_room: set[Pool] = set()
        full = self._full(now)
        while self._candidates and monotonic() - now < MOST_WORK_S:
            pool, exchange = self._candidates.popleft()
            attempt = exchange.attempt
            if pool in without_room or attempt is None or attempt.replica not in self._vacated:
                continue
            result = exchange.move(full)
            if result == moving.MOVED:
                self._under_way.append(MoveUnderWay(exchange))
                return True
            if result == moving.NO_ROOM:
                without_room.add(pool)
        return False

    def _full(self, now: float) -> list[Replica]:
        """The replicas that must not be given more now."""
        begun = Counter(move.replica for move in self._under_way)
        full = [replica for replica, number in begun.items() if number >= MOST_UNDER_WAY and replica]
        pools = set(self._vacated.values())
        return full + [replica for pool in pools for replica in pool.replicas if _queues(replica, now)]

    # What people see.

    def survey(self) -> Generator[None, None, None]:
        """Look at what is in flight, in steps."""
        examined = 0
        looked = 0
        for pool in list(self._table.fleets.values()):
            continues = pool.policy.continuation == "auto"
            able = _Able(pool) if continues else None
            for replica in pool.replicas:
                moves = replica.moves
                if not replica.in_flight or not (continues or replica.spec.is_vacated):
                    if moves.movable or moves.staying:
                        moves.looked(0, 0, {})
                    continue
                movable = tokens = 0
                staying: Counter[str] = Counter()
                for exchange in requests_at(replica):
                    looked += 1
                    response = exchange.streaming_response
                    if isinstance(response, ContinuableResponse):
                        if not response.examined and not response.kept.cause and examined < EXAMINED_AT_ONCE:
                            examined += 1
                            response.examine(prefill_of(pool))
                        nobody = able is not None and not able.another(replica, response.call)
                    else:
                        nobody = False
                    if why := moving.why_it_stays(exchange) or ("no_replica" if nobody else ""):
                        staying[why] += 1
                    else:
                        movable += 1
                        tokens += moving.prompt_tokens(exchange)
                moves.looked(movable, tokens, dict(staying))
                if looked >= LOOKED_AT_ONCE:
                    looked = 0
                    yield


class MoveUnderWay:
    """A request that was moved, until its new replica answers."""

    __slots__ = ("_continued", "_exchange", "_response")

    def __init__(self, exchange: UpstreamExchange) -> None:
        self._exchange = exchange
        self._response = exchange.streaming_response
        self._continued = 0 if self._response is None else self._response.continued

    @property
    def replica(self) -> Replica | None:
        """Where it is now; ``None``: it waits in the queue."""
        attempt = self._exchange.attempt
        return None if attempt is None else attempt.replica

    @property
    def is_under_way(self) -> bool:
        exchange = self._exchange
        if exchange.attempt is None and exchange.waiting is None:
            return False
        response = exchange.streaming_response
        return response is self._response and (response is None or response.continued == self._continued)


class _Able:
    """Which of a fleet's replicas could continue what others have begun: by call and version."""

    def __init__(self, pool: Pool) -> None:
        self._replicas: dict[tuple[bytes, str], list[Replica]] = {}
        for replica in pool.replicas:
            spec = replica.spec
            if spec.admin_state != "active" or spec.health != "ready" or spec.weight <= 0:
                continue
            for call in (CHAT, COMPLETION):
                if can_continue(replica, call):
                    self._replicas.setdefault((call, spec.version), []).append(replica)

    def another(self, replica: Replica, call: bytes) -> bool:
        able = self._replicas.get((call, replica.spec.version), ())
        return len(able) > (replica in able[:1]) if len(able) < 2 else True


def requests_at(replica: Replica) -> Iterator[UpstreamExchange]:
    """Those in flight there, of this worker, that have been sent."""
    endpoint = replica.endpoint
    if not isinstance(endpoint, UpstreamEndpoint):
        return
    for handler in endpoint.handlers():
        if isinstance(handler, UpstreamExchange):
            attempt = handler.attempt
            if attempt is not None and attempt.replica is replica:
                yield handler


def _queues(replica: Replica, now: float) -> bool:
    """Whether it has said lately that requests wait in its own queue."""
    history = replica.load_reports.history
    if history is None or history.load is None or now - history.at > REPORT_HOLDS_S:
        return False
    return bool(history.load.waiting)
