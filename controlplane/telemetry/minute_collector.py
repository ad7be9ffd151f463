"""Minute collector: adds up each subject's measures until its minute is over. Pure: time is an argument.

Minutes of different subjects end in different seconds, so that of ten thousand busy ones fewer than two
hundred rows are written in any second. Sparse: replicas and keys at which nothing happened have no row.
Fleets have one each minute, so that a gap says that nobody measured.
"""

from collections.abc import Mapping
from zlib import crc32

from controlplane.telemetry import measures
from controlplane.telemetry.measures import HistoryRow, Measures, Subject, of_fleet, of_replica
from controlplane.telemetry.merged_numbers import Merged

MINUTE_S = 60


class MinuteCollector:
    """Of one conductor; used by one thread."""

    def __init__(self) -> None:
        self._open: list[dict[Subject, Measures]] = [{} for _ in range(MINUTE_S)]
        """By the second in which their minutes end."""
        self._second: int | None = None

    def take(self, merged: Merged, seconds: float) -> None:
        """Take in what a merge has learned. ``seconds``: since the last one, for what is in flight."""
        for subject, news in merged.news.items():
            measures.add(self._of(subject), news)
        for name, fleet in merged.fleets.items():
            found = self._of(of_fleet(name))
            found.in_flight_s += fleet.in_flight * seconds
            found.waiting_s += fleet.queue.waiting * seconds
            for uid, replica in fleet.replicas.items():
                if replica.in_flight:
                    self._of(of_replica(uid)).in_flight_s += replica.in_flight * seconds

    def ended(self, at: float) -> Mapping[Subject, HistoryRow]:
        """The minutes that have ended until ``at`` (Unix seconds), since the last call; they begin anew."""
        second = int(at)
        before = second if self._second is None or self._second > second else self._second
        self._second = second
        rows: dict[Subject, HistoryRow] = {}
        for each in range(max(before, second - MINUTE_S) + 1, second + 1):
            finished = self._open[each % MINUTE_S]
            self._open[each % MINUTE_S] = {}
            for subject, found in finished.items():
                rows[subject] = measures.row(found, each, MINUTE_S)
        return rows

    def _of(self, subject: Subject) -> Measures:
        return self._open[crc32(subject.encode()) % MINUTE_S].setdefault(subject, Measures())
