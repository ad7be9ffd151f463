"""Locality, spill-over: requests stay at the proxy's own site while it can take them; the rest goes on.

Theory. A request that leaves its site pays for the way, and takes a place that the other site's own requests
may need. So the own site is used first, and left for one of four reasons:

1. *Nobody can be asked there*: the others are, at once.
2. *It is busier than ``spill_above``*, and others are less busy. Of busyness ``u`` above the threshold ``s``
   the share ``(u − s) / (1 − s)`` of requests goes on, each by chance: none at the threshold, all when it is
   full. What leaves lowers ``u`` and with it the share, so the two settle where the own site has what it can
   take, ``u`` between ``s`` and 1; there is no switch that could flap, and no state.
3. *It cannot meet the deadline* that the client gave, by the time that the request is expected to take there,
   and others can. Likewise what would be too late elsewhere does not go on for reason 2.
4. *The request would have to wait* for a place there, and others have one that is free, unless only the wait
   ends in time.

How busy a site is:

- Where each replica says how many requests it serves at once, ``u`` is the requests of this host there,
  those that wait for a place included, over the places. The request that is to be placed is not counted:
  with one place and none in use a site is idle. What a replica reports of others' requests fills at most its
  own places: one that has many, or says so, does not make a site busy whose other replicas are idle.
- Elsewhere there is nothing that could be full. A server that shares itself out among all its requests
  (processor sharing) is busy for the part ``ρ`` of the time when a request takes ``1 / (1 − ρ)`` times as
  long as it would alone. How long it would take alone nobody knows, but how long it would take elsewhere:
  so ``u = 1 − T_elsewhere / T_here``, of the least expected seconds at both, ``m · (n + 1)``. At 0.8 a site
  is left when a request takes five times as long there as elsewhere; with equal servers and the others idle
  that is at four requests in flight at each, which is just what ``ρ = n / (n + 1)`` says. It needs no
  memory of better times, which would be wrong for good if a fleet was never idle.

All sites but the own are one: the strategy picks among their replicas as it always does, by what it learned
of them, which knows of the way as well. Replicas that name no site are near to everybody. In panic, and
when only ejected replicas are left, sites say nothing: all are asked alike.

Requests with a key (sessions, prompts) spill by its last hash instead of by chance, so that those that leave
are the same ones from request to request; of prompts that only begin alike, some leave.

Sources: zone-aware routing of Envoy, which likewise sends the part that is too much, and does nothing in
panic; processor sharing as in Kleinrock, Queueing Systems II (1976), ch. 4. Failure mode: a proxy sees only
what its own host sends, so requests of other hosts at a batching server show as slowness alone, and its
limits are its share of them.
"""

from collections.abc import Iterable
from math import inf

from routing.balancing.replica.state import Replica


def spill_share(busy: float, elsewhere: float, spill_above: float) -> float:
    """Which part of its requests a site hands on, itself and the others being so busy: 0 to 1."""
    if busy <= spill_above or elsewhere >= busy:
        return 0.0
    return 1.0 if busy >= 1.0 else (busy - spill_above) / (1.0 - spill_above)


def utilization(replicas: Iterable[Replica]) -> float | None:
    """Requests there, and waiting for a place there, over the places; ``None``: one of them has no number."""
    requests = places = 0
    for replica in replicas:
        slots = replica.concurrency
        if slots is None:
            return None
        places += slots
        others = replica.external_load
        requests += replica.load if others <= slots else replica.load - others + slots
    return requests / places


def least_seconds(replicas: Iterable[Replica]) -> float:
    """Expected seconds per unit of work of one request more, at the best of them, all sharing it."""
    least = inf
    for replica in replicas:
        slots, requests = replica.concurrency, replica.load + 1
        least = min(least, replica.cost * (requests if slots is None else max(1.0, requests / slots)))
    return least


def expected_seconds(replica: Replica, work: float) -> float:
    """How long a request of so much work is expected to take there.

    A batching server's learned speed is as it was experienced, beside the others: it says all.
    """
    slots, requests = replica.concurrency, replica.load
    if slots is None or requests < slots:
        return replica.cost * work
    waiting = replica.load_work * (requests + 1 - slots) / (slots * requests)
    return replica.cost * (work + waiting)


def misses_deadline(replicas: Iterable[Replica], work: float, left_s: float) -> bool:
    """Whether none of them is expected to be done with a request in so many seconds."""
    return all(expected_seconds(replica, work) > left_s for replica in replicas)
