"""Load reports (ORCA and metrics pages): the load of other clients at a replica, added to this host's own.

Theory. A replica counts the requests of all clients: of this host, of other proxies, and of clients that
connect directly. A proxy counts its own requests without delay, but a report is seconds old. So own requests
are never taken from a report. What a report counts *beyond* the own requests of that time is added to the
own requests of now::

    others = mean of (running + waiting − proxies · own in flight around then)

*Other proxies.* The proxies of one control plane know how many they are. They follow the same rule, so each
has about the same load at each replica. That part is subtracted; what is left is the load of clients that do
not come through these proxies.

*Why a mean.* The last reading alone would do if the others' load did not depend on ours (for requests that
last ``T``, the correlation of the number in flight after ``t`` is ``e^(−t/T)``). But other proxies read the
same report and react at the same time: all avoid a replica until the next report, then all return (herding).
Simulated (four proxies, 16 unequal batching servers, 85 % load, a report every 2 s): with the last reading
the mean response time is a third longer, with a mean of several readings 4 %, and if the proxies know how
many they are, 1 %. So signed readings are averaged with an exponential decay of MEAN_S: slow compared with
reports, fast compared with changes of traffic.

*Noise.* Servers' gauges lag, and requests begin and end while a page is written. The variance of the own
requests around a reading measures its uncertainty. A mean below one request plus STANDARD_ERRORS of it
counts as 0, so a fleet without other clients is not affected.

*Age.* A report has full weight for FRESH_PERIODS probe periods and none after GONE_PERIODS; in between the
weight falls linearly.

*Upper bound.* A server may report a wrong number, or a backlog that no pick here can reduce. So others'
requests at a replica are capped at SEVERAL times its ``max_concurrency``. If that is not known, the cap is
SEVERAL times the usual load in the pool: the larger of this host's most at one replica and the median of
others' load, but at least LEAST_USUAL. One wrong report changes neither much. The replica is then avoided.

*Zero.* A server that is cold, or whose gauges lag, reports 0. That is below this host's own count, which it
does not lower.

*KV cache.* A batching server whose KV cache is full preempts, but its speed per token is learned within a
second. Simulated with little memory (16 unequal servers, 47,000 tokens each, 85 % load): counting replicas
that report more than 90 % in use as up to twice as slow made the 99th percentile of time to first token 38 to
52 % longer, because a report is older than the learned speed. So the share in use is only displayed.

Source: stale load information causes herding (Mitzenmacher, "How Useful Is Old Information?", 2000); the
correlation is the residual-life tail of M/G/∞. Failure mode: a server that counts requests differently (one
for each prompt of a batch, or finished ones too) seems to have other clients' load in proportion to ours.
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
"""Own requests are averaged over this time before a report: gauges are updated periodically."""
AFTER_S = 0.1
"""And over this time after it: the period of the timer."""
MEAN_S = 10.0
FRESH_PERIODS = 2.0
GONE_PERIODS = 5.0
KEPT_S = 15.0
"""Length of the history of own requests. Older reports are not used."""
STANDARD_ERRORS = 1.5
"""A mean below one request plus this many standard errors counts as noise."""
SEVERAL = 4
LEAST_USUAL = 4


class ReportContext(NamedTuple):
    """What a fleet's reports are compared with."""

    period_s: float
    """Seconds between two probes."""
    mean_work: float
    """Mean work of a request."""
    proxies: int = 1
    """Proxies known to serve the same replicas, this one included."""


def record(replica: Replica, report: ReportedLoad, now: float) -> None:
    """Take in a new report, ``report.age_s`` old. One older than the last is ignored."""
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


class Correction:
    """On the slow timer: the load of other clients at each replica of a pool. One look at all replicas, some
    at a time, and then what follows from it."""

    __slots__ = ("_around", "_loads", "_most_own")

    def __init__(self, around: ReportContext) -> None:
        self._around = around
        self._loads: list[tuple[Replica, int]] = []
        self._most_own = LEAST_USUAL

    def look(self, replicas: Iterable[Replica], now: float) -> None:
        """Take note of what they have, and read their new reports."""
        most_own = self._most_own
        for replica in replicas:
            own = replica.in_flight + replica.peer_in_flight - replica.external_load
            if own > most_own:
                most_own = own
            if (state := replica.load_reports.history) is None:
                continue
            _remember(state, now, own)
            if state.unread:
                state.unread = False
                _read(state, self._around.proxies)
            self._loads.append((replica, _others(state, now, self._around.period_s)))
        self._most_own = most_own

    def apply(self) -> None:
        """All have been looked at: count the others' load."""
        if self._loads:
            usual = max(self._most_own, median_low([others for _, others in self._loads]))
            for replica, others in self._loads:
                counted = min(others, SEVERAL * (replica.concurrency or usual))
                sibling_load.count_external(replica, counted, counted * self._around.mean_work)


def latest(replica: Replica, now: float) -> ReportedLoad | None:
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
    """Process a new report. The first ones, without a history of own requests, only start the history."""
    load = state.load
    seen = _own_around(state)
    if not seen or load is None or load.in_flight is None:
        return
    own = fmean(seen)
    variance = fmean([(each - own) ** 2 for each in seen])
    others = load.in_flight - proxies * own
    if load.running is None and state.mean_weight and others < state.mean:
        # Only part of the load is reported: the rest may still be there.
        others = state.mean
    keep = exp((state.read_at - state.at) / MEAN_S) if state.read_at else 0.0
    # Stored as weighted sums, so that the first readings give a mean of few, not one that grows from 0.
    state.mean_sum = state.mean_sum * keep + others
    state.noise_sum = state.noise_sum * keep + variance * proxies * proxies
    state.mean_weight = state.mean_weight * keep + 1.0
    state.read_at = state.at


def _own_around(state: LoadReportHistory) -> list[int]:
    """Samples of this host's requests in flight around the last report; empty: there are none."""
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
    """Weight of a report of this age, 1 to 0."""
    periods = age_s / period_s
    if age_s >= KEPT_S:
        return 0.0
    return min(max((GONE_PERIODS - periods) / (GONE_PERIODS - FRESH_PERIODS), 0.0), 1.0)
