"""Body budget: the memory of one worker for request bodies, and who gives way when it is short.

Theory. A body counts from its first byte until no byte of it is held any more: until the replica's connection
has taken it and no copy is kept for a retry. States of a counted body:

========== ===========================================================================================
state      meaning
========== ===========================================================================================
COLLECTING it is still coming, and its fleet or its cost is not known: it may be refused with a 503
WAITING    the same, and nothing more is read of it until there is room
RUNNING    its request goes to a replica, waits for a slot, or is being answered: never refused
========== ===========================================================================================

When there is no room, the first of these that helps is done:

1. Copies kept for a retry are freed, of requests that were sent: these can then not be retried.
2. Collected bodies of which less than ``PROGRESS_BYTES`` came within ``STALLED_S`` are refused, the largest
   first.
3. A body waits, unread, for ``LONGEST_WAIT_S`` at most: those that began first are read on first. Where
   mostly such bodies fill the budget, so that no other's end can free any, those that began last are refused,
   until the first has the room that it needs.
4. A new body is refused.

The last eighth of the budget is for bodies of up to ``SMALL_BYTES`` alone, and the one before it for them and
what comes at once of larger ones, which then wait. A whole body of up to ``COUNTED_BYTES`` that came with its
head is not counted.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from time import monotonic
from typing import Protocol

from routing.http.timeout_sweeper import TimeoutSweeper

SMALL_BYTES = 65_536
COUNTED_BYTES = 16_384
_PARTS = 8
READ_BYTES = 262_144
"""The most that one read of a connection brings."""
PROGRESS_BYTES = 4096
STALLED_S = 1.0
LONGEST_WAIT_S = 10.0
SEARCH_EVERY_S = 0.05
"""All bodies are searched for what can be freed at most this often."""

COLLECTING, WAITING, RUNNING, RELEASED = range(4)

REFUSED, STALLED, UNCOPIED = "body_memory", "body_stalled", "retry_copy"
"""Reasons, as they are counted: a body was refused, one that stalled gave way, a copy was freed."""


class BodyOwner(Protocol):
    """The exchange whose body it is. Crosses a layer: :mod:`routing.proxy.exchange` implements it."""

    def pause_collecting(self) -> None:
        """Read no more of the body for now."""

    def resume_collecting(self) -> None:
        """Read on."""

    def refuse_body(self) -> None:
        """Respond that there is no memory for it, and release it."""

    def free_retry_copy(self) -> bool:
        """Give up what is kept for a retry alone, and release it; whether there was such a copy."""
        ...


class BodyCharge:
    """What one body counts."""

    __slots__ = (
        "_budget",
        "announced",
        "began",
        "marked_at",
        "marked_size",
        "owner",
        "promised",
        "size",
        "state",
    )

    def __init__(self, budget: BodyBudget, owner: BodyOwner, size: int, announced: int, began: int) -> None:
        self._budget = budget
        self.owner = owner
        self.size = size
        """Bytes held."""
        self.announced = announced
        """Its Content-Length; 0: unknown."""
        self.began = began
        """Bodies are numbered as they begin."""
        self.state = COLLECTING
        self.marked_at = 0.0
        self.marked_size = 0
        """When it had made progress last, and its size then."""
        self.promised = False
        """It is read on after it has waited, and nothing has come yet."""

    @property
    def is_small(self) -> bool:
        return self.size <= SMALL_BYTES and self.announced <= SMALL_BYTES

    def grow(self, size: int, last: bool, now: float) -> None:
        """So many more bytes are held. ``last``: nothing more comes."""
        self._budget.grow(self, size, last, now)

    def resize(self, size: int) -> None:
        """So many bytes of a running request's body are held now."""
        self._budget.resize(self, size)

    def run(self) -> None:
        """Nothing is collected any more: the request is on its way."""
        self._budget.run(self)

    def release(self) -> None:
        """Nothing of it is held any more. May be said more than once."""
        self._budget.release(self)


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
        self.total = self._for_large = self._for_more = self._read_bytes = 0
        self.set(total)
        self._count = 0
        self._collecting: dict[BodyCharge, None] = {}
        self._waiting: dict[BodyCharge, float] = {}
        """Since when; those that wait longest come first."""
        self._running: dict[BodyCharge, None] = {}
        self._running_bytes = 0
        self._promised = 0
        self._searched_at = 0.0
        self._pumping = False

    def set(self, total: int) -> None:
        """Set the limit."""
        part = total // _PARTS
        self.total = total
        self._for_large = total - part
        """For large bodies to begin."""
        self._for_more = total - 2 * part
        """For large bodies to be read on."""
        self._read_bytes = min(READ_BYTES, part)

    @property
    def waiting(self) -> int:
        """Bodies that wait for room."""
        return len(self._waiting)

    @property
    def _ahead(self) -> int:
        """What those that are read on again may bring."""
        return self._promised * self._read_bytes

    def is_short(self) -> bool:
        """Whether large bodies find no room now."""
        return self.used + self._read_bytes > self._for_more

    # Of one body.

    def begin(
        self, owner: BodyOwner, size: int, announced: int, whole: bool, now: float
    ) -> BodyCharge | None:
        """Count a body of which ``size`` bytes have come. ``announced``: as in :class:`BodyCharge`.
        ``whole``: nothing more of it comes. ``None``: there is no room for it."""
        self._count += 1
        charge = BodyCharge(self, owner, size, announced, self._count)
        excess = self.used + size - (self.total if charge.is_small else self._for_large)
        if excess > 0 and not self._make_room(excess, now):
            self.acts[REFUSED] += 1
            return None
        self.used += size
        if whole:
            charge.state = RUNNING
            self._running[charge] = None
            self._running_bytes += size
        else:
            charge.marked_at = now
            charge.marked_size = size
            self._collecting[charge] = None
        return charge

    def grow(self, charge: BodyCharge, size: int, last: bool, now: float) -> None:
        if charge.state == RELEASED:
            return
        charge.size += size
        self.used += size
        if charge.state == RUNNING:
            self._running_bytes += size
            return
        self._keep_promise(charge)
        if charge.size - charge.marked_size >= PROGRESS_BYTES:
            charge.marked_size = charge.size
            charge.marked_at = now
        if last or charge.state == WAITING or charge.marked_at != now:
            return  # what comes byte by byte need not wait: it stalls
        excess = self.used - (self.total if charge.is_small else self._for_more)
        if excess > 0 and not self._make_room(excess, now, charge):
            self._wait(charge, now)

    def resize(self, charge: BodyCharge, size: int) -> None:
        if charge.state != RUNNING:
            return
        more = size - charge.size
        charge.size = size
        self.used += more
        self._running_bytes += more
        if more < 0:
            self._pump_soon()

    def run(self, charge: BodyCharge) -> None:
        if charge.state not in (COLLECTING, WAITING):
            return
        self._drop(charge)
        charge.state = RUNNING
        self._running[charge] = None
        self._running_bytes += charge.size

    def release(self, charge: BodyCharge) -> None:
        if charge.state == RELEASED:
            return
        self._drop(charge)
        charge.state = RELEASED
        self.used -= charge.size
        charge.size = 0
        self._pump_soon()

    def _drop(self, charge: BodyCharge) -> None:
        """Out of the list of its state."""
        if charge.state == RUNNING:
            del self._running[charge]
            self._running_bytes -= charge.size
            return
        self._keep_promise(charge)
        if charge.state == COLLECTING:
            del self._collecting[charge]
        else:
            del self._waiting[charge]

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
        return self.used <= target

    def _refuse(self, charge: BodyCharge, reason: str) -> None:
        if charge.state != RELEASED:
            self.acts[reason] += 1
            charge.owner.refuse_body()
            self.release(charge)

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
        while self._waiting:
            charge = min(self._waiting, key=lambda one: one.began)
            if self.used + self._ahead + self._read_bytes > self._for_more:
                return
            self._read_on(charge)

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
            self._make_room(self.used + self._ahead + self._read_bytes - self._for_more, now)
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
        while order and self.used + needed > self._for_more:
            self._refuse(order.pop(), REFUSED)
        if self.used + self._read_bytes > self._for_more and not (self._collecting or self._running_bytes):
            # It alone is too much.
            self._refuse(first, REFUSED)
