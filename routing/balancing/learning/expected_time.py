"""Expected time: how long a request is expected to take at a replica, from what was learned of it."""

from routing.balancing.replica.state import Replica


def expected_seconds(replica: Replica, work: float, counted: float = 0.0, pace: float = 0.0) -> float:
    """How long a request of so much work is expected to take there, in seconds. ``counted``: its own work, if
    the replica's load has it already. ``pace``: seconds per unit of work, if not what was learned there.

    A batching server's learned speed is as it was experienced, beside the others: it says all.
    """
    slots, requests = replica.concurrency, replica.load - (1 if counted else 0)
    pace = pace or replica.seconds_per_work / replica.ramp
    if slots is None or requests < slots:
        return pace * work
    waiting = (replica.load_work - counted) * (requests + 1 - slots) / (slots * requests)
    return pace * (work + waiting)
