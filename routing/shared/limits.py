"""Shared limits: enforced by all workers of a host together, by counters that each writes for itself.

Rule. A worker that wants a slot first writes its claim where the others see it, and only then reads theirs.
If the sum is too much, it withdraws its claim. Of any set of granted claims, the one written last has seen
all the others, so the limit is never exceeded. Two workers that claim the last slot at once may both
withdraw, though there was a slot for one. Both then look again, and the worker with the higher number gives
way sooner.

The write must be seen before the reads begin. Processors let a read overtake an earlier write, so a
:func:`fence` stands between the two.
"""

from threading import Lock

from routing.shared.shm_counters import CounterCells

MAX_CLAIM_ATTEMPTS = 4
"""Attempts of worker 0 where claims collide. Each further worker makes one less, but at least one."""
_lock = Lock()
_acquire, _release = _lock.acquire, _lock.release


def fence() -> None:
    """Memory barrier: what this thread wrote before is visible to all before it reads on.

    Taking a lock that nobody else has is an atomic read-modify-write, which on x86 (Intel SDM 3A §9.2) is a
    full barrier, at a tenth of a system call's price. On other processors it may be weaker by a few
    nanoseconds.
    """
    _acquire(False)
    _release()


def take(cells: CounterCells, field: int, amount: float, limit: float) -> bool:
    """Add to this worker's ``field`` if all workers together then have no more than ``limit``."""
    view, at = cells.view, cells.own + field
    before = view[at]
    # As fence() and the loop below, without the calls: the first sum nearly always decides.
    view[at] = wanted = before + amount
    _acquire(False)
    _release()
    for sibling in cells.siblings:
        wanted += view[sibling + field]
    if wanted <= limit:
        return True
    view[at] = before
    if before + amount + cells.siblings_sum(field) > limit:
        return False
    # If two workers collide, the one with the higher number gives up after fewer attempts: no livelock.
    for _ in range(max(0, MAX_CLAIM_ATTEMPTS - cells.worker - 1)):
        view[at] = before + amount
        fence()
        others = cells.siblings_sum(field)
        if before + amount + others <= limit:
            return True
        view[at] = before
        if before + amount + cells.siblings_sum(field) > limit:
            return False
    return False


def give_back(cells: CounterCells, field: int, amount: float) -> None:
    """Subtract what :func:`take` has added. Never below 0: the cells may have been cleared since."""
    view, at = cells.view, cells.own + field
    view[at] = max(0.0, view[at] - amount)
