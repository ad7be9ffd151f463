"""Body budget: the memory of one worker for request bodies, and which body is refused when it is short.

Theory. A body counts from its first byte until no byte of it is held any more: until the replica's connection
has taken it and no copy is kept for a retry. States of a counted body:

========== ===========================================================================================
state      meaning
========== ===========================================================================================
COLLECTING it is still coming, and all of it is needed: it may be refused with a 503
WAITING    the same, and nothing more is read of it until there is room
STREAMING  it goes to a replica as it comes, or waits for a slot or a connection. What counts is what the
           replica has not taken; then no more is read of it
RUNNING    it is whole; its request goes to a replica, waits for a slot, or is being answered: never refused
========== ===========================================================================================

The budget has eight parts. One is set aside for small bodies, of up to ``SMALL_BYTES``; one for streams; one
for large bodies that begin. All bodies share the other five, large ones that go on included. So other bodies
cannot keep out small ones, or uploads whose replicas keep up.

When there is no room, the first of these that helps is done:

1. Copies kept for a retry are freed, of requests that were sent. Such a request is then not retried.
2. Collected bodies that have stalled are refused, the largest first: less than ``PROGRESS_BYTES`` came
   within ``STALLED_S``. Then streams that have stalled end, if streams have more than their part: the
   replica has taken less than ``PROGRESS_BYTES`` within ``STALLED_S``.
3. A body waits, unread, for ``LONGEST_WAIT_S`` at most. Those that began first are read on first. If
   waiting bodies hold most of what is used, other bodies cannot free enough by ending. Then those that
   began last are refused, until the first has the room that it needs.
4. A new body is refused, with two exceptions. A body whose fleet is known waits. A body that is whole is
   served. If there is no room for one of these two, bodies of unknown fleets are refused, the newest
   first. If that would not free enough, the new body is refused instead.
5. If streams have more than their part and no large body could begin, a stream ends. It is chosen from
   the ``LOOKED_AT`` streams of which the replica has taken nothing for the longest time: the one whose
   client address has the most connections. The same choice is made in 2.

Before any of that, answers that are kept to be continued give way (:mod:`routing.proxy.limits.kept_answers`).
They have only what is left.

A whole body of up to ``COUNTED_BYTES`` that came with its head is not counted.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import chain, islice
from time import monotonic

from routing.http.timeout_sweeper import TimeoutSweeper
from routing.proxy.limits.body_charge import (
    COLLECTING,
    RELEASED,
    RUNNING,
    SMALL_BYTES,
    STREAMING,
    WAITING,
    BodyCharge,
    BodyOwner,
)
from routing.proxy.limits.held_bytes import LOOKED_AT
from routing.proxy.limits.kept_answers import KeptAnswers

COUNTED_BYTES = 16_384
_PARTS = 8
READ_BYTES = 262_144
"""The most that one read of a connection brings."""
PROGRESS_BYTES = 4096
STALLED_S = 1.0
LONGEST_WAIT_S = 10.0
AT_ONCE = 2
"""So many bodies that have waited are read on in one turn of the loop."""
REFUSED_AT_ONCE = 16
"""So many bodies that wait are refused in one turn, so that others have room: one millisecond."""
SEARCH_EVERY_S = 0.05
"""All bodies are searched for what can be freed at most this often."""

REFUSED, STALLED, UNCOPIED, STUCK = "body_memory", "body_stalled", "retry_copy", "upload_stalled"
"""Reasons, as they are counted: a body was refused; one that had stalled was refused; a copy was freed; a
stream whose replica took nothing ended."""


class BodyBudget:
    """The budget of one worker. Sizes in bytes, times are of ``time.monotonic()``."""

    deadline = 0.0
    """For the sweeper, while bodies wait."""

    def __init__(self, loop: asyncio.AbstractEventLoop, sweeper: TimeoutSweeper, total: int) -> None:
        self._loop = loop
        self._sweeper = sweeper
        self.used = 0
        self.acts: Counter[str] = Counter()
        """How often it had to act, by reason."""
        self.kept = KeptAnswers(lambda: self._for_more - self._taken)
        """What is kept of answers, in addition to ``used``."""
        self.total = self._part = self._for_large = self._for_more = self._read_bytes = 0
        self._streamed = self._small = 0
        """Bytes of streams, and of small bodies."""
        self.set(total)
        self._count = 0
        self._collecting: dict[BodyCharge, None] = {}
        self._waiting: dict[BodyCharge, float] = {}
        """Since when; those that wait longest come first."""
        self._running: dict[BodyCharge, None] = {}
        self._running_bytes = 0
        self._holding: dict[BodyCharge, None] = {}
        """Streams of which bytes are held. Those that made progress longest ago come first."""
        self._promised = 0
        self._searched_at = 0.0
        self._pumping = self._relieving = False

    def set(self, total: int) -> None:
        """Set the limit."""
        self.total = total
        self._part = part = total // _PARTS
        self._for_large = total - part
        """For large bodies to begin."""
        self._for_more = total - 2 * part
        """For large bodies, and streams beyond their part, to be read on."""
        self._read_bytes = min(READ_BYTES, part)
        self.kept.shrink()

    @property
    def waiting(self) -> int:
        """Bodies that wait for room."""
        return len(self._waiting)

    @property
    def _ahead(self) -> int:
        """What those that are read on again may bring."""
        return self._promised * self._read_bytes

    @property
    def _taken(self) -> int:
        """What is used, with the whole part of streams."""
        return self.used + max(0, self._part - self._streamed)

    @property
    def streams_are_short(self) -> bool:
        """Whether no more of a stream is to be read before its replica has taken what is held."""
        return self._streamed > self._part and self._taken > self._for_more

    def _excess(self, charge: BodyCharge, for_large: int) -> int:
        """By how much a collected body, which is counted, is too much; 0 or less: there is room."""
        if charge.is_small:
            return min(self._taken - self.total, self._small - self._part)
        return self._taken - for_large

    # Of one body.

    def begin(
        self, owner: BodyOwner, size: int, announced: int, whole: bool, known: bool, now: float
    ) -> BodyCharge | None:
        """Count a body that is needed as a whole, of which ``size`` bytes have come. ``announced``,
        ``known``: as in :class:`BodyCharge`. ``whole``: nothing more of it comes. ``None``: there is no room
        for it."""
        charge = self._new(owner, size, announced, known)
        self._small += size if charge.is_small else 0
        excess = self._excess(charge, self._for_large)
        if excess > 0 and not self._make_room(excess, now):
            if known and not whole:
                excess = self._excess(charge, self.total)
            if not (whole or known) or not self._refuse_unknown(excess):
                self.acts[REFUSED] += 1
                self.release(charge)
                return None
        if whole:
            self._to_running(charge)
            return charge
        charge.marked_at = now
        charge.marked_size = size
        self._collecting[charge] = None
        if self._excess(charge, self._for_large) > 0:
            self._wait(charge, now)
        return charge

    def stream(self, owner: BodyOwner, size: int) -> BodyCharge:
        """Count a body that goes to a replica as it comes, of which ``size`` bytes have come."""
        charge = self._new(owner, 0, 0, True)
        self._to_streaming(charge, size)
        return charge

    def _new(self, owner: BodyOwner, size: int, announced: int, known: bool) -> BodyCharge:
        self._count += 1
        self._use(size)
        return BodyCharge(owner, size, announced, known, self._count)

    def _use(self, size: int) -> None:
        """So many more bytes of bodies are held."""
        self.used += size
        if self.kept.used:
            self.kept.shrink()

    def grow(self, charge: BodyCharge, size: int, last: bool, now: float) -> None:
        """So many more bytes are held. ``last``: nothing more comes."""
        if charge.state == RELEASED:
            return
        if charge.state == STREAMING:
            self.resize(charge, charge.size + size)
            return
        charge.size += size
        self._use(size)
        if charge.is_small:
            self._small += size
            if charge.size > SMALL_BYTES:
                self._small -= charge.size
                charge.is_small = False
        if charge.state == RUNNING:
            self._running_bytes += size
            return
        self._keep_promise(charge)
        if charge.size - charge.marked_size >= PROGRESS_BYTES:
            charge.marked_size = charge.size
            charge.marked_at = now
        if last or charge.state == WAITING or charge.marked_at != now:
            return  # what comes byte by byte need not wait: it stalls
        excess = self._excess(charge, self._for_more)
        if excess > 0 and not self._make_room(excess, now, charge):
            self._wait(charge, now)

    def resize(self, charge: BodyCharge, size: int) -> None:
        """So many bytes of a stream are held now."""
        if charge.state != STREAMING:
            return
        more = size - charge.size
        charge.size = size
        self._streamed += more
        self._use(more)
        if not size:
            self._holding.pop(charge, None)
        elif charge not in self._holding or charge.marked_size - size >= PROGRESS_BYTES:
            self._holding.pop(charge, None)
            self._holding[charge] = None
            charge.marked_at = monotonic()
            charge.marked_size = size
        else:
            charge.marked_size = max(charge.marked_size, size)
        if more < 0:
            self._pump_soon()
        elif self.streams_are_short:
            self._relieve_soon()

    def run(self, charge: BodyCharge, streams: bool) -> None:
        """The request is on its way: as a whole, or its body ``streams``."""
        if charge.state not in (COLLECTING, WAITING):
            return
        self._drop(charge)
        if streams:
            size, charge.size = charge.size, 0
            self.used -= size
            if charge.is_small:
                self._small -= size
                charge.is_small = False
            self._to_streaming(charge, size)
        else:
            self._to_running(charge)

    def _to_running(self, charge: BodyCharge) -> None:
        charge.state = RUNNING
        self._running[charge] = None
        self._running_bytes += charge.size

    def _to_streaming(self, charge: BodyCharge, size: int) -> None:
        charge.is_small = False
        charge.state = STREAMING
        self.resize(charge, size)
        if size and self.streams_are_short:
            charge.owner.pause_collecting()  # until the replica's connection is open

    def release(self, charge: BodyCharge) -> None:
        """Nothing of it is held any more. May be said more than once."""
        if charge.state == RELEASED:
            return
        self._drop(charge)
        charge.state = RELEASED
        self.used -= charge.size
        if charge.is_small:
            self._small -= charge.size
        charge.size = 0
        self._pump_soon()

    def _drop(self, charge: BodyCharge) -> None:
        """Out of the list of its state."""
        if charge.state == RUNNING:
            del self._running[charge]
            self._running_bytes -= charge.size
        elif charge.state == STREAMING:
            self._holding.pop(charge, None)
            self._streamed -= charge.size
        else:
            self._keep_promise(charge)
            self._collecting.pop(charge, None)
            self._waiting.pop(charge, None)

    # Making room.

    def _make_room(self, excess: int, now: float, asks: BodyCharge | None = None) -> bool:
        """Free so many bytes, from others than ``asks``; whether that was possible."""
        if now - self._searched_at < SEARCH_EVERY_S:
            return False
        self._searched_at = now
        target = self.used - excess
        for charge in list(self._running):
            if self.used <= target:
                break
            if charge.size > COUNTED_BYTES and charge.owner.free_retry_copy():
                self.acts[UNCOPIED] += 1
        if self.used > target:
            stalled = [one for one in self._collecting if now - one.marked_at > STALLED_S and one is not asks]
            for charge in sorted(stalled, key=lambda one: -one.size):
                if self.used <= target or not charge.size:
                    break
                self._refuse(charge, STALLED)
        while self.used > target and self._end_slowest(now - STALLED_S):
            pass
        return self.used <= target

    def _refuse(self, charge: BodyCharge, reason: str) -> None:
        if charge.state != RELEASED:
            self.acts[reason] += 1
            charge.owner.refuse_body()
            self.release(charge)

    def _refuse_unknown(self, excess: int) -> bool:
        """Free so many bytes of bodies that are being collected and whose fleet is not known, those that
        began last first, but not of the part of small ones; whether that was possible, else none is freed."""
        refused: list[BodyCharge] = []
        small = self._small
        for charge in chain(reversed(self._waiting), reversed(self._collecting)):
            if excess <= 0:
                break
            if charge.is_known or (charge.is_small and small <= self._part):
                continue
            small -= charge.size if charge.is_small else 0
            excess -= charge.size
            refused.append(charge)
        if excess > 0:
            return False
        for charge in refused:
            self._refuse(charge, REFUSED)
        return True

    # Streams.

    def _relieve_soon(self) -> None:
        if not self._relieving:
            self._relieving = True
            # This may be in the middle of a write.
            self._loop.call_soon(self._relieve)

    def _relieve(self) -> None:
        """End streams that are too much."""
        self._relieving = False
        now = monotonic()
        if self.streams_are_short:
            self._make_room(self._taken - self._for_more, now)
        while self._taken > self._for_large and len(self._holding) > 1 and self._end_slowest(now):
            pass

    def _end_slowest(self, before: float) -> bool:
        """End a stream that has made no progress since then, if streams have more than their part; whether
        there was one."""
        found: BodyCharge | None = None
        most = -1
        for charge in list(islice(self._holding, LOOKED_AT)):
            charge.owner.measure_upload()
            if charge.size and charge.marked_at <= before and (weight := charge.owner.neighbours) > most:
                found, most = charge, weight
        if found is None or self._streamed <= self._part:
            return False
        self.acts[STUCK] += 1
        found.owner.end_upload()
        self.release(found)
        return True

    # Waiting for room.

    def _wait(self, charge: BodyCharge, now: float) -> None:
        if not self._waiting:
            self._sweeper.add(self)
        del self._collecting[charge]
        charge.state = WAITING
        self._waiting[charge] = now
        charge.owner.pause_collecting()

    def _keep_promise(self, charge: BodyCharge) -> None:
        if charge.promised:
            charge.promised = False
            self._promised -= 1

    def _pump_soon(self) -> None:
        if self._waiting and not self._pumping:
            self._pumping = True
            self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        """Read on where there is room. What each of them may bring is taken as brought."""
        self._pumping = False
        for _ in range(AT_ONCE):
            if not self._waiting or self._taken + self._ahead + self._read_bytes > self._for_more:
                return
            self._read_on(min(self._waiting, key=lambda one: one.began))
        self._pump_soon()

    def _read_on(self, charge: BodyCharge) -> None:
        del self._waiting[charge]
        charge.state = COLLECTING
        charge.promised = True
        self._promised += 1
        charge.marked_at = monotonic()
        charge.marked_size = charge.size
        self._collecting[charge] = None
        charge.owner.resume_collecting()

    def check(self, now: float) -> None:
        """Called by the sweeper while bodies wait."""
        for charge, since in list(self._waiting.items()):
            if now - since <= LONGEST_WAIT_S:
                break
            self._refuse(charge, REFUSED)
        if self._waiting:
            self._make_room(self._taken + self._ahead + self._read_bytes - self._for_more, now)
        if 2 * sum(charge.size for charge in self._waiting) > self.used:
            self._give_way()
        if self._waiting:
            self._pump()
        if not self._waiting:
            self._sweeper.discard(self)

    def _give_way(self) -> None:
        """Refuse waiting bodies, the last ones first, until the first has room for all of it."""
        order = sorted(self._waiting, key=lambda one: one.began)
        first = order.pop(0)
        needed = max(first.announced - first.size, self._read_bytes)
        for charge in reversed(order[-REFUSED_AT_ONCE:]):
            if self._taken + needed <= self._for_more:
                break
            self._refuse(charge, REFUSED)
        if len(order) > REFUSED_AT_ONCE:
            return
        others = self._collecting or self._running_bytes or self._streamed
        if self._taken + self._read_bytes > self._for_more and not others:
            # It alone is too much.
            self._refuse(first, REFUSED)
