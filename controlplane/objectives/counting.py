"""Counting: what the proxies' reports add to each objective's counts. Pure.

Reports hold totals that only grow, also over a worker's end (:mod:`routing.contract.ended_requests`). What
was seen last is kept by worker, so that the next one who counts goes on where the last one stopped.
"""

from collections.abc import Iterable, Mapping

import msgspec

from controlplane.telemetry.merge import ReceivedReport
from routing.contract.telemetry import WorkerReport

YOUNG_S = 30.0
"""Of whoever counts first of all: what older workers have counted until then is nothing new."""

Counts = tuple[int, int]
"""(good, all)."""
FleetCounts = dict[str, dict[str, Counts]]
"""Fleet → objective's kind → counts."""


class SeenTotals(msgspec.Struct, array_like=True):
    """One worker's totals when they were last seen."""

    totals: str
    """Which memory they are counted in."""
    incarnation: int
    fleets: FleetCounts = {}


SeenByWorker = dict[str, SeenTotals]
"""By worker."""


def news(seen: SeenByWorker, heard: Iterable[ReceivedReport], *, is_first: bool = False) -> FleetCounts:
    """What was counted since ``seen``, which is brought up to date. ``is_first``: nobody has counted yet."""
    found: FleetCounts = {}
    present = set()
    for each in heard:
        report = each.report
        present.add(report.worker)
        now = SeenTotals(report.totals, report.incarnation, _totals(report))
        before = seen.get(report.worker)
        seen[report.worker] = now
        if before is None and is_first and report.uptime_s > YOUNG_S:
            continue
        base = before.fleets if before is not None and _goes_on(before, now) else {}
        for fleet, kinds in now.fleets.items():
            _add(found.setdefault(fleet, {}), base.get(fleet, {}), kinds)
    for gone in seen.keys() - present:
        del seen[gone]
    return found


def _totals(report: WorkerReport) -> FleetCounts:
    return {
        fleet.name: {kind: (good, total) for kind, total, good in fleet.ended.objectives() if total}
        for fleet in report.fleets
        if fleet.ended is not None
    }


def _goes_on(before: SeenTotals, now: SeenTotals) -> bool:
    """Whether the later totals contain the earlier ones."""
    if before.totals != now.totals:
        return False
    return bool(now.totals) or before.incarnation == now.incarnation


def _add(found: dict[str, Counts], base: Mapping[str, Counts], kinds: Mapping[str, Counts]) -> None:
    for kind, (good, total) in kinds.items():
        good_before, total_before = base.get(kind, (0, 0))
        if total < total_before:  # the fleet was removed and is there again
            good_before = total_before = 0
        had_good, had_total = found.get(kind, (0, 0))
        found[kind] = (had_good + max(good - good_before, 0), had_total + total - total_before)
