"""Failure penalty as load: for strategies that count requests, a failure stays in flight for some seconds.

Theory. A replica that fails at once never has anything in flight. So every strategy that looks for the least
loaded replica finds it: 60 % of all requests in simulation. A failure therefore counts as one more request
that takes as long as a slow response would. By Little's law that is the same load as if the replica had
responded slowly. :mod:`routing.balancing.learning.failure_penalty` does the same for strategies that learn
response times. The slow timer ends the penalties. Failures close to each other end together, so that there
are few entries however many requests fail.

Only strategies see this load. It takes no slot and no memory, and no limit counts it. Strategies that weigh
waiting take load beyond the requests in flight for a queue, so they do not get it; they learn times.

Source: our own. That a failure counts as a slow response is Finagle's.
"""

from collections import deque

from routing.balancing.replica.sibling_load import count_failures
from routing.balancing.replica.state import Replica

_PARTS = 10
"""Into how many entries the failures of one penalty's time are gathered at most."""


def add(replica: Replica, seconds: float, now: float) -> None:
    """Count one more failure as load, for so many seconds."""
    ends, until = replica.failure_load.ends, now + seconds
    if ends is None:
        replica.failure_load.ends = ends = deque()
    if ends and until - ends[-1][0] < seconds / _PARTS:
        ends[-1] = (ends[-1][0], ends[-1][1] + 1)
    else:
        ends.append((until, 1))
    count_failures(replica, 1)


def expire(replica: Replica, now: float) -> None:
    """Take off the failures whose time is over."""
    ends = replica.failure_load.ends
    while ends and ends[0][0] <= now:
        count_failures(replica, -ends.popleft()[1])


def forget(replica: Replica) -> None:
    """Take off all: for a replica that returns from ejection, or where the strategy does not want them."""
    if replica.failure_load.ends is None:
        return
    replica.failure_load.ends.clear()
    count_failures(replica, -replica.failure_load.requests)
