"""Load reports (as ORCA's): what others have in flight at a replica, beyond what this host knows of its own.

Theory. A replica counts everybody's requests: this host's, other proxies', those of clients that go there
directly. A proxy counts its own at once; a report is seconds old. So own requests are never taken from a
report. What it says *beyond* ours, as they were when it was given, is added to what ours are now::

    others = mean of (running + waiting − proxies · own in flight around then)

*Other proxies.* Those of one control plane know how many they are, and have about as much at each replica as
this one does: they follow the same rule. What is theirs by that is no news and is not added; what is left is
the load of those that nobody here chose for.

*Why a mean.* Adding the last reading alone would be right if the others' load were as it is whatever we do
(of requests that last ``T`` the number in flight ``t`` later is still alike by ``e^(−t/T)``). But other
proxies hear the same report and move at the same time: all avoid a replica until the next report, and then
all come back. Simulated (four proxies, 16 unequal batching servers, 85 % load, reports each 2 s): the last
reading makes the mean response a third longer, the mean of some readings 4 %, and where the proxies know how
many they are, 1 %. So readings are averaged with their signs, decaying with MEAN_S, which is slow against
reports and fast against how traffic changes.

*Noise.* Servers' gauges lag, requests come and go while a page is written. How uncertain a reading is shows
in how much own requests varied around it; a mean of less than one request and STANDARD_ERRORS of it is none,
so that a fleet whose load is all its own is left alone.

*Age.* A report counts in full for FRESH_PERIODS probe periods, nothing after GONE_PERIODS, evenly less
between.

*Too much.* A server may be wrong, or may tell of a backlog that no pick here can do anything about. Others'
requests at one replica count at most as SEVERAL times its ``max_concurrency`` or, where that is not known, as
SEVERAL times what is usual in the pool: the most that this host has at one replica, or the median of what
others have at each, whichever is more, and LEAST_USUAL at least. One wrong report moves neither. It is then
avoided, as one that has so much is.

*Zero.* A server that is cold, or lags, reports 0. That is below what this host has there, and lowers nothing.

*KV memory.* A batching server whose KV memory is full preempts, but how long tokens take there is learned
within a second, for each replica. Simulated with little memory (16 unequal servers, 47,000 tokens each, 85 %
load): where replicas that reported more than 90 % of it in use counted as up to twice as slow, the 99th
percentile of first tokens came 38 to 52 % later, for a report is older than what is learned. So the share in
use is shown, and picks do not go by it.

Source: "least loaded by stale numbers herds" (Mitzenmacher, "How Useful Is Old Information?", 2000); the
correlation is the residual-life tail of M/G/∞. Failure mode: a server that counts requests otherwise (per
prompt of a batch, or also those that it has answered) seems to have others' load in proportion to ours.
"""

from collections.abc import Iterable
from math import exp, sqrt
from statistics import fmean, median_low
from typing import NamedTuple

from msgspec.structs import replace

from routing.balancing.replica import sibling_load
from routing.balancing.replica.load_reports import LoadReportHistory
from routing.balancing.replica.state import Replica
from routing.contract.load_report import ReportedLoad

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
SEVERAL = 4
LEAST_USUAL = 4


class ReportContext(NamedTuple):
    """What a fleet's reports are compared with."""

    period_s: float
    """Between two probes."""
    mean_work: float
    """Of a request."""
    proxies: int = 1
    """That are known to serve the same replicas, this one among them."""


def heard(replica: Replica, report: ReportedLoad, now: float) -> None:
    """A report has come, ``report.age_s`` old. An older one than the last is ignored."""
    if report.problem:
        return
    state = replica.load_reports.history
    if state is None:
        state = replica.load_reports.history = LoadReportHistory()
    at = now - report.age_s
    if at <= state.at:
        return
    state.at, state.load = at, report
    if report.in_flight is not None:
        state.unread = True


def correct(replicas: Iterable[Replica], now: float, around: ReportContext) -> None:
    """On the slow timer: renew the load that others have at each of a pool's replicas."""
    told, most_own = [], LEAST_USUAL
    for replica in replicas:
        own = replica.in_flight + replica.peer_in_flight - replica.external_load
        most_own = max(most_own, own)
        if (state := replica.load_reports.history) is None:
            continue
        _remember(state, now, own)
        if state.unread:
            state.unread = False
            _read(state, around.proxies)
        told.append((replica, _others(state, now, around.period_s)))
    if told:
        usual = max(most_own, median_low([others for _, others in told]))
        for replica, others in told:
            counted = min(others, SEVERAL * (replica.concurrency or usual))
            sibling_load.count_external(replica, counted, counted * around.mean_work)


def told(replica: Replica, now: float) -> ReportedLoad | None:
    """The replica's last report, with its age now; ``None``: there was none."""
    state = replica.load_reports.history
    if state is None or state.load is None:
        return None
    return replace(state.load, age_s=round(max(now - state.at, 0.0), 3))


def _remember(state: LoadReportHistory, now: float, own: int) -> None:
    history = state.own
    history.append((now, own))
    while history[0][0] < now - KEPT_S:
        history.popleft()


def _read(state: LoadReportHistory, proxies: int) -> None:
    """Take in a new report; the first ones, from before own requests were remembered, only begin that."""
    load = state.load
    seen = _own_around(state)
    if not seen or load is None or load.in_flight is None:
        return
    own = fmean(seen)
    variance = fmean([(each - own) ** 2 for each in seen])
    others = load.in_flight - proxies * own
    if load.running is None and state.mean_weight and others < state.mean:
        # It tells only a part: no reason to think that the rest is gone.
        others = state.mean
    keep = exp((state.read_at - state.at) / MEAN_S) if state.read_at else 0.0
    # Kept as sums with their weight: the first readings are a mean of few, not one that grows from 0.
    state.mean_sum = state.mean_sum * keep + others
    state.noise_sum = state.noise_sum * keep + variance * proxies * proxies
    state.mean_weight = state.mean_weight * keep + 1.0
    state.read_at = state.at


def _own_around(state: LoadReportHistory) -> list[int]:
    """What this host had in flight when the last report was given, at each look; empty: it did not look."""
    found = []
    for at, own in reversed(state.own):
        if at < state.at - LAG_S:
            break
        if at <= state.at + AFTER_S:
            found.append(own)
    return found


def _others(state: LoadReportHistory, now: float, period_s: float) -> int:
    if not state.mean_weight:
        return 0
    noise = 1.0 + STANDARD_ERRORS * sqrt(state.noise_sum) / state.mean_weight
    return round(state.mean * _weight(now - state.read_at, period_s)) if state.mean >= noise else 0


def _weight(age_s: float, period_s: float) -> float:
    """What a report so old still counts for: 1 to 0."""
    periods = age_s / period_s
    if age_s >= KEPT_S:
        return 0.0
    return min(max((GONE_PERIODS - periods) / (GONE_PERIODS - FRESH_PERIODS), 0.0), 1.0)
