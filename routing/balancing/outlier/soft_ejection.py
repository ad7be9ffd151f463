"""Soft ejection: a replica that should be ejected, but may not be because of the limit, gets next to nothing.

Theory. Many replicas must stay in use, but that is no reason to send requests to one that is known to fail.
The failure penalty keeps most requests away where a strategy learns times or counts requests, but not all. If
all other slots are taken, a replica that fails at once always has a free one (1 % of all requests in
simulation). Strategies that take turns by weight look at neither (6 to 16 %). So each failure that would
eject makes a soft ejection, for as long as a failure counts: a hundredth of the weight, and no slot where
there is a limit. The replica's next success ends it. Until then it is tried by one request in a hundred of
its own, or when the time is over.

The limit on ejections protects the rest of the pool from overload. So a soft ejection begins only while half
of the pool is neither ejected nor soft-ejected. Beyond that, the cause is likely behind all replicas, or in
the requests.

Source: our own. A row of failures that is its clients' fault
(:mod:`routing.balancing.outlier.poison_clients`) makes no soft ejection either.
"""

from routing.balancing.replica.state import Replica

SHARE = 0.01


def may_begin(out_besides: int, available: int) -> bool:
    """Whether half of the pool is neither ejected nor soft-ejected. ``out_besides``: how many others are.
    ``available``: replicas that could be in use if none was ejected."""
    return 2 * (1 + out_besides) <= available


def begin(replica: Replica, until: float) -> bool:
    """Soft-eject the replica until then. Returns whether that is new: then its effective weight must fall at
    once."""
    begins = not replica.ejection.soft_until
    replica.ejection.soft_until = until
    return begins


def end(replica: Replica) -> None:
    """End the soft ejection. The effective weight follows on the slow timer."""
    replica.ejection.soft_until = 0.0


def share(replica: Replica, now: float) -> float:
    """Factor on the replica's weight. Ends a soft ejection whose time is over."""
    if now >= replica.ejection.soft_until:
        end(replica)
        return 1.0
    return SHARE


def words(replica: Replica, now: float) -> str:
    """Why the replica gets next to nothing, for people; empty: it is not soft-ejected."""
    left = replica.ejection.soft_until - now
    if left <= 0:
        return ""
    return f"asked next to nothing for another {left:.0f} s: it fails, and no more may be ejected"
