"""Failure penalty as load: where strategies count, a failure stays in flight as long as a slow answer would.

Theory. A replica that fails at once never has anything in flight, so every rule that looks for the least
loaded one finds it: 60 % of all requests in simulation. What
:mod:`routing.balancing.learning.failure_penalty` is to rules that learn answer times, this is to rules that
count: each failure is a request that takes several seconds more. By Little's law that is the same load as if
it had answered slowly. The time is looked at on the slow timer, and failures close to each other end
together, so that few entries are kept however many fail.

It is load in the strategies' eyes alone: it takes no place and no memory, and limits know nothing of it.
Rules that weigh waiting against working read load beyond what is in flight as somebody who waits, so it is
kept from them; they learn times.

Source: our own; "a failure counts as a slow answer" is Finagle's.
"""

from routing.balancing.replica.sibling_load import count_failures
from routing.balancing.replica.state import Replica

_PARTS = 10
"""Into how many entries the failures of one penalty's time are gathered at most."""


def add(replica: Replica, seconds: float, now: float) -> None:
    """One more failure, for so long."""
    ends, until = replica.failure_load.ends, now + seconds
    if ends and until - ends[-1][0] < seconds / _PARTS:
        ends[-1] = (ends[-1][0], ends[-1][1] + 1)
    else:
        ends.append((until, 1))
    count_failures(replica, 1)


def expire(replica: Replica, now: float) -> None:
    """Take off what is over."""
    ends = replica.failure_load.ends
    while ends and ends[0][0] <= now:
        count_failures(replica, -ends.popleft()[1])


def forget(replica: Replica) -> None:
    """For a replica that returns from ejection, and where the strategy does not want it."""
    replica.failure_load.ends.clear()
    count_failures(replica, -replica.failure_load.requests)
