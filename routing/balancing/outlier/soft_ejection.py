"""Soft ejection: what a replica gets that would be ejected, were it not for the limit on ejections.

Theory. That many replicas must stay is no reason to send them what is known to fail. The failure penalty
keeps most of it away from rules that learn times or count requests, but not all: where all other places are
taken, who fails at once always has a free one (1 % of all requests in simulation), and rules that take
turns by weight look at neither (6 to 16 %). So each failure that would eject sets the replica back, for as
long as a failure counts: it has a hundredth of its weight, and no place where places are counted. Its next
success ends that. Otherwise it is tried again by one request in a hundred of its own, or by whatever comes
when its time is over.

The limit on ejections is there lest the rest break down. So it is set back only while half of the pool is
neither ejected nor set back; beyond that the fault is likely behind all of them, or in the requests.

Source: our own. A row that is its clients' fault (:mod:`routing.balancing.outlier.poison_clients`) sets back
as little as it ejects.
"""

from collections.abc import Iterable

from routing.balancing.replica.state import Replica

SHARE = 0.01


def may_begin(replica: Replica, replicas: Iterable[Replica], available: int) -> bool:
    """Whether half of a pool is well besides. ``available``: how many could be in use if none was ejected."""
    return 2 * (1 + sum(_is_out(other) for other in replicas if other is not replica)) <= available


def begin(replica: Replica, until: float) -> bool:
    """Soft-eject it until then. Whether that is new: then its effective weight has to fall at once."""
    begins = not replica.ejection.soft_until
    replica.ejection.soft_until = until
    return begins


def end(replica: Replica) -> None:
    """It is as any other; its effective weight follows on the slow timer."""
    replica.ejection.soft_until = 0.0


def share(replica: Replica, now: float) -> float:
    """By what its weight is to be multiplied; ends what is over."""
    if now >= replica.ejection.soft_until:
        end(replica)
        return 1.0
    return SHARE


def words(replica: Replica, now: float) -> str:
    """For people; empty: it is as any other."""
    left = replica.ejection.soft_until - now
    if left <= 0:
        return ""
    return f"asked next to nothing for another {left:.0f} s: it fails, and no more may be ejected"


def _is_out(replica: Replica) -> bool:
    return bool(replica.ejection.until or replica.ejection.soft_until)
