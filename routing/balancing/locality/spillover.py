"""Locality, spill-over: requests stay at the proxy's own site while it has room; the rest goes elsewhere.

Theory. A request that leaves its site takes longer, and takes a slot that the other site's own requests may
need. So the own site is used first. A request goes elsewhere for one of four reasons:

1. *No replica of the site can be asked.* Then those of the other sites are, at once.
2. *The site is busier than ``spill_above``*, and the others are less busy. With utilization ``u`` above the
   threshold ``s``, the share ``(u − s) / (1 − s)`` of requests leaves, each by chance: none at the threshold,
   all when the site is full. What leaves lowers ``u`` and with it the share. So the two settle where the site
   has what it can take, ``u`` between ``s`` and 1. There is no switch that could flap, and no state.
3. *The site cannot meet the client's deadline*, by the expected time of the request, and others can. Nor does
   a request leave for reason 2 if it would be too late elsewhere.
4. *The request would have to wait* for a slot here, and others have a free one, unless only the wait ends in
   time.

How busy a site is:

- Where every replica has a concurrency limit, ``u`` is this host's requests there, those that wait for a slot
  included, over the slots. The request to be placed is not counted: a site with one slot and none in use is
  idle. What a replica reports of others' requests fills at most its own slots. So one replica with many, or
  with a wrong report, does not make a site busy whose other replicas are idle.
- Without limits nothing can be full. A server that shares itself among all its requests (processor sharing)
  is busy for the part ``ρ`` of the time when a request takes ``1 / (1 − ρ)`` times as long as it would alone.
  Nobody knows how long it would take alone, but it is known how long it would take elsewhere. So
  ``u = 1 − T_elsewhere / T_here``, of the least expected seconds at both, ``m · (n + 1)``. At 0.8 requests
  leave a site when they take five times as long there as elsewhere. With equal servers, and the others idle,
  that is at four requests in flight at each, just as ``ρ = n / (n + 1)`` says. No memory of better times is
  needed, which would be wrong for good if a fleet was never idle.

All sites but the own are one: the strategy picks among their replicas as always, by what it learned of them,
the distance included. Replicas without a site are near to every proxy. In panic, and when only ejected
replicas are left, sites do not matter.

Requests with a key (sessions, prompts) leave by its last hash instead of by chance. So the same ones leave
from request to request, and of prompts that only begin alike, some leave.

Sources: zone-aware routing of Envoy, which also sends away what is too much, and does nothing in panic;
processor sharing as in Kleinrock, Queueing Systems II (1976), ch. 4. Failure mode: a proxy sees only what its
own host sends. Requests of other hosts at a batching server show only as slowness, and the limits are this
proxy's part of them.
"""

from collections.abc import Iterable
from math import inf

from routing.balancing.learning.expected_time import expected_seconds
from routing.balancing.replica.state import Replica


def spill_share(busy: float, elsewhere: float, spill_above: float) -> float:
    """Which part of its requests a site hands on, itself and the others being so busy: 0 to 1."""
    if busy <= spill_above or elsewhere >= busy:
        return 0.0
    return 1.0 if busy >= 1.0 else (busy - spill_above) / (1.0 - spill_above)


def utilization(replicas: Iterable[Replica]) -> float | None:
    """Requests there, those that wait for a slot included, over the slots; ``None``: one has no limit."""
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
        pace = replica.seconds_per_work / replica.ramp
        least = min(least, pace * (requests if slots is None else max(1.0, requests / slots)))
    return least


def misses_deadline(replicas: Iterable[Replica], work: float, left_s: float) -> bool:
    """Whether none of them is expected to be done with a request in so many seconds."""
    return all(expected_seconds(replica, work) > left_s for replica in replicas)
