"""Minute collector: adds up each subject's measures until its minute is over. Pure: time is an argument.

Minutes of different subjects end in different seconds, so that of ten thousand busy ones fewer than two
hundred rows are written in any second. Sparse: replicas and keys at which nothing happened have no row.
Fleets have one each minute, so that a gap says that nobody measured. Where there are so many replicas and
keys that a day of their minutes would not fit, they have a row each five minutes instead.
"""

from collections.abc import Iterable, Mapping
from zlib import crc32

from controlplane.telemetry import measures
from controlplane.telemetry.measures import HistoryRow, HistorySubject, Measures, of_fleet, of_replica
from controlplane.telemetry.merged_numbers import Merged

MINUTE_S = 60
LONG_S = 300
"""Of a row of replicas and keys, where there are very many."""
_Open = list[dict[HistorySubject, Measures]]


class MinuteCollector:
    """Of one conductor; used by one thread."""

    def __init__(self) -> None:
        self._fleets: _Open = [{} for _ in range(MINUTE_S)]
        """Those whose row is not over, by the second in which it will be. The same of all others:"""
        self._others: _Open = [{} for _ in range(LONG_S)]
        self._others_s = MINUTE_S
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

    def ended(self, at: float, others_s: int = MINUTE_S) -> Mapping[HistorySubject, HistoryRow]:
        """The rows that have ended until ``at`` (Unix seconds), since the last call; they begin anew.
        ``others_s``: how long those of replicas and keys are from now on, MINUTE_S or LONG_S."""
        second = int(at)
        before = second if self._second is None or self._second > second else self._second
        self._second = second
        rows: dict[HistorySubject, HistoryRow] = {}
        if others_s != self._others_s:
            # What is open was meant to be of another length.
            _end(rows, self._others, range(LONG_S), second, self._others_s)
            self._others_s = others_s
        for each in range(max(before, second - MINUTE_S) + 1, second + 1):
            _end(rows, self._fleets, (each % MINUTE_S,), each, MINUTE_S)
        for each in range(max(before, second - others_s) + 1, second + 1):
            due = range(each % others_s, LONG_S, others_s)
            _end(rows, self._others, due, each, others_s)
        return rows

    def _of(self, subject: HistorySubject) -> Measures:
        where = self._fleets if subject.startswith("fleet:") else self._others
        return where[crc32(subject.encode()) % len(where)].setdefault(subject, Measures())


def _end(
    rows: dict[HistorySubject, HistoryRow], where: _Open, which: Iterable[int], at: int, seconds: int
) -> None:
    for index in which:
        finished, where[index] = where[index], {}
        for subject, found in finished.items():
            rows[subject] = measures.row(found, at, seconds)
