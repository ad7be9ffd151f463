"""What others have in flight at a replica, from what the replica reports and what this host knows of its own.

Theory. A replica counts everybody's requests: this host's, other proxies', those of clients that go there
directly. A proxy counts its own at once; a report is seconds old. So own requests are never taken from a
report: what it says *beyond* them is, as they were when it was given, and is then added to what they are now
(picking the least of polled numbers herds: until the next poll everybody goes to the same place).

    others(at) = running + waiting − own in flight around ``at``

*How long one reading is worth.* Requests end. Of a number in flight (M/G/∞: Poisson arrivals, any lengths)
the correlation with what it was ``t`` ago is the part of requests that are still the same, about
``e^(−t/T)`` with ``T`` the mean length; the best guess in between is the long-run mean::

    others(now) = mean + e^(−age / T) · (others(at) − mean)

so that among requests of 20 ms a reading of a second ago says nothing but its part in the mean, and among
streams of a minute nearly all. The mean is an average over readings that decays with MEAN_S. It is taken with
its sign, and what is less than STANDARD_ERRORS of it is none: servers' gauges lag, requests come and go
while a page is written, and a fleet whose load is all its own is not to be disturbed by that. How uncertain a
reading is shows in how much own requests varied around it.

*Age.* A report counts in full for FRESH_PERIODS probe periods, nothing after GONE_PERIODS, evenly less
between.

*Zero.* A server that is cold, or lags, reports 0. That is below what this host has there, and never lowers
it.

*Limits.* Where several proxies share out a replica's ``max_concurrency``, the others may use their shares of
it; only what others have beyond those is added.

*KV memory.* A batching server whose KV memory is full preempts: requests lose what was computed for them, or
wait inside for memory. How long tokens take shows that seconds later; the share in use shows it before. Above
KV_TIGHT the replica counts as slower, evenly, up to twice as slow at full: as if another batch of the same
size stood before the request. It never is taken out for it, because a full memory may also be one in good
use.

Source of the correlation: the residual-life tail of M/G/∞ (Eick, Massey, Whitt, "The Physics of the
M_t/G/∞ Queue", 1993). Failure mode: a server that counts requests otherwise (per prompt of a batch, or also
those that it has answered) seems to have others' load in proportion to ours.
"""

from math import exp, sqrt
from statistics import fmean
from typing import NamedTuple

from msgspec.structs import replace

from routing.contract.reported import ReportedLoad
from routing.replica import Replica, Reported

LAG_S = 1.0
"""Own requests are averaged over so long before a report: gauges are written now and then."""
AFTER_S = 0.1
"""And so long after it: the timer beats so."""
MEAN_S = 10.0
FRESH_PERIODS = 2.0
GONE_PERIODS = 5.0
KEPT_S = 15.0
"""History of own requests: no older report is used, whatever the period."""
STANDARD_ERRORS = 1.5
"""What is less than so many, and one request, is taken for noise."""
KV_TIGHT = 0.9
SHORTEST_MEAN_S = 0.05


class Times(NamedTuple):
    """What is usual in a fleet."""

    period_s: float
    """Between two probes."""
    mean_s: float
    """Of an answer."""
    mean_work: float
    """Of a request."""


def heard(replica: Replica, report: ReportedLoad, now: float) -> None:
    """A report has come, ``report.age_s`` old. One that is older than the last is left."""
    if report.problem:
        return
    state = replica.reported
    if state is None:
        state = replica.reported = Reported()
    at = now - report.age_s
    if at <= state.at:
        return
    state.at, state.load = at, report
    if report.kv_share is not None:
        state.kv_share, state.kv_at = report.kv_share, at
    if report.in_flight is not None:
        state.unread = True


def correct(replica: Replica, now: float, times: Times, entitled: int = 0) -> None:
    """On the slow timer: bring what others have there up to date. ``entitled``: so many places of its limit
    are other proxies' anyway."""
    state = replica.reported
    if state is None:
        return
    _remember(state, now, replica.in_flight + replica.peer_in_flight - replica.elsewhere)
    if state.unread:
        state.unread = False
        _read(state)
    _count(replica, max(_others(state, now, times) - entitled, 0), times.mean_work)


def _count(replica: Replica, others: int, mean_work: float) -> None:
    """So many requests of others are there now: part of the load that strategies see, of no limit."""
    replica.elsewhere, replica.elsewhere_work = others, others * mean_work
    if replica.cells is None:
        # As host_view.read_counts does for those that have peers.
        replica.peer_in_flight = others
        replica.peer_load = others + replica.failure_load
        replica.peer_load_work = replica.elsewhere_work
        replica.load = replica.in_flight + replica.expected + replica.peer_load
        replica.load_work = replica.work + replica.expected_work + replica.elsewhere_work


def told(replica: Replica, now: float) -> ReportedLoad | None:
    """Its last report with the age that it has now."""
    state = replica.reported
    if state is None or state.load is None:
        return None
    return replace(state.load, age_s=round(max(now - state.at, 0.0), 3))


def pressure(replica: Replica, now: float, period_s: float) -> float:
    """How many times slower a replica counts for the KV memory that it says is in use: 1 to 2."""
    state = replica.reported
    if state is None or state.kv_share <= KV_TIGHT:
        return 1.0
    over = (state.kv_share - KV_TIGHT) / (1 - KV_TIGHT)
    return 1.0 + over * _weight(now - state.kv_at, period_s)


def _remember(state: Reported, now: float, own: int) -> None:
    history = state.own
    history.append((now, own))
    while history[0][0] < now - KEPT_S:
        history.popleft()


def _read(state: Reported) -> None:
    """Take in a new report; the first ones, from before own requests were remembered, only begin that."""
    load = state.load
    around = _own_around(state)
    if not around or load is None or load.in_flight is None:
        return
    own = fmean(around)
    variance = fmean([(each - own) ** 2 for each in around])
    others = load.in_flight - own
    if load.running is None and state.read_at and others < state.others:
        # It tells only a part: no reason to think that the rest is gone.
        others = state.others
    keep = exp((state.read_at - state.at) / MEAN_S) if state.read_at else 0.0
    # Kept as sums with their weight: the first readings are a mean of few, not one that grows from 0.
    state.mean_sum = state.mean_sum * keep + others
    state.noise_sum = state.noise_sum * keep + variance
    state.mean_weight = state.mean_weight * keep + 1.0
    state.others, state.read_at = others, state.at


def _own_around(state: Reported) -> list[int]:
    """What this host had in flight when the last report was given, at each look; empty: it did not look."""
    found = []
    for at, own in reversed(state.own):
        if at < state.at - LAG_S:
            break
        if at <= state.at + AFTER_S:
            found.append(own)
    return found


def _others(state: Reported, now: float, times: Times) -> int:
    if not state.mean_weight:
        return 0
    age = now - state.read_at
    mean = state.mean_sum / state.mean_weight
    guess = mean + exp(-age / max(times.mean_s, SHORTEST_MEAN_S)) * (state.others - mean)
    noise = 1.0 + STANDARD_ERRORS * sqrt(state.noise_sum) / state.mean_weight
    return round(guess * _weight(age, times.period_s)) if guess >= noise else 0


def _weight(age_s: float, period_s: float) -> float:
    """What a report so old still counts for: 1 to 0."""
    periods = age_s / period_s
    if age_s >= KEPT_S:
        return 0.0
    return min(max((GONE_PERIODS - periods) / (GONE_PERIODS - FRESH_PERIODS), 0.0), 1.0)
