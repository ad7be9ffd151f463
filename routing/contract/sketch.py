"""Latency sketch (DDSketch): counts in logarithmic buckets, mergeable, 2 % relative error.

Theory, after DDSketch (Masson, Rim, Lee: "DDSketch: a fast and fully-mergeable quantile sketch with
relative-error guarantees", VLDB 2019). With a relative error a, let g = (1 + a) / (1 - a). Bucket i
holds the values in [m g^i, m g^(i+1)), m being the smallest value told apart. Answering
2 m g^(i+1) / (1 + g) for every value of bucket i is wrong by at most a factor of 1 ± a, whatever the
distribution was. Merging two sketches adds their counts, which loses nothing; percentiles
themselves must never be averaged.

Unlike DDSketch the range is fixed, 1 µs to one day, so there are at most 630 buckets and none is
ever collapsed. What lies outside is counted in the first or last bucket. All durations are seconds.
"""

from collections.abc import Mapping
from math import ceil, log
from typing import Final

RELATIVE_ERROR: Final = 0.02
SMALLEST_S: Final = 1e-6
LARGEST_S: Final = 86_400.0

_GAMMA: Final = (1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR)
_SCALE: Final = 1 / log(_GAMMA)
_OFFSET: Final = -log(SMALLEST_S) * _SCALE

LAST_BUCKET: Final = ceil(log(LARGEST_S / SMALLEST_S) * _SCALE) - 1
"""Buckets are numbered from 0 to this one."""

_VALUES: Final = tuple(SMALLEST_S * _GAMMA**i * 2 * _GAMMA / (1 + _GAMMA) for i in range(LAST_BUCKET + 1))


def bucket_of(seconds: float) -> int:
    """The bucket that counts this duration. Not a number, zero and less count as the smallest."""
    if SMALLEST_S < seconds < LARGEST_S:
        return int(log(seconds) * _SCALE + _OFFSET)
    return LAST_BUCKET if seconds >= LARGEST_S else 0


def value_of(bucket: int) -> float:
    """Seconds that stand for a bucket, within 2 % of each duration counted in it.

    A bucket out of range (from a newer version of the other plane) is read as the nearest known.
    """
    return _VALUES[min(max(bucket, 0), LAST_BUCKET)]


def quantile(counts: Mapping[int, int], q: float) -> float | None:
    """Seconds below which a share ``q`` (0 to 1) of the counted durations lies; ``None`` when empty.

    Within 2 % of the sorted sample's element number ``floor(q · (n − 1))``, counted from 0.
    Raises ValueError when ``q`` is outside 0 to 1.
    """
    if not 0 <= q <= 1:
        raise ValueError(f"a quantile lies between 0 and 1, not at {q}")
    total = sum(counts.values())
    if total <= 0:
        return None
    rank = int(q * (total - 1))
    for bucket in sorted(counts):
        rank -= counts[bucket]
        if rank < 0:
            return value_of(bucket)
    raise AssertionError("a rank below the total lies in some bucket")


def mean(counts: Mapping[int, int]) -> float | None:
    """Seconds, the average of the counted durations within 2 %; ``None`` when empty."""
    total = sum(counts.values())
    return sum(value_of(bucket) * count for bucket, count in counts.items()) / total if total > 0 else None


def subtract(newer: Mapping[int, int], older: Mapping[int, int]) -> dict[int, int]:
    """What was counted between two readings of a cumulative sketch; empty buckets are left out.

    Cumulative counts only grow. Where one has shrunk, the counting process restarted and began again
    at zero, so all of ``newer`` happened since. The result is never negative.
    """
    get = newer.get
    if any(get(bucket, 0) < count for bucket, count in older.items()):
        return {bucket: count for bucket, count in newer.items() if count > 0}
    before = older.get
    return {bucket: count - before(bucket, 0) for bucket, count in newer.items() if count > before(bucket, 0)}


class Sketch:
    """Counts of one series of durations. Not safe for threads that observe at the same time."""

    __slots__ = ("counts",)

    def __init__(self, counts: Mapping[int, int] | None = None) -> None:
        self.counts: dict[int, int] = dict(counts) if counts else {}
        """Bucket → how many; sparse. What crosses the wire (:data:`telemetry.SparseSketch`)."""

    def observe(self, seconds: float) -> None:
        """Count one duration."""
        # bucket_of written out: this runs for every request, and the call would cost a quarter of it.
        if SMALLEST_S < seconds < LARGEST_S:
            bucket = int(log(seconds) * _SCALE + _OFFSET)
        else:
            bucket = LAST_BUCKET if seconds >= LARGEST_S else 0
        counts = self.counts
        counts[bucket] = counts.get(bucket, 0) + 1

    def merge(self, other: "Sketch") -> None:
        """Add everything that ``other`` has counted."""
        self.add_counts(other.counts)

    def add_counts(self, counts: Mapping[int, int]) -> None:
        """Add counts as they came over the wire."""
        own = self.counts
        for bucket, count in counts.items():
            own[bucket] = own.get(bucket, 0) + count

    @property
    def count(self) -> int:
        """How many durations were observed."""
        return sum(self.counts.values())

    def quantile(self, q: float) -> float | None:
        """As the function :func:`quantile`."""
        return quantile(self.counts, q)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sketch) and self.counts == other.counts

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        p50, p99 = self.quantile(0.5), self.quantile(0.99)
        if p50 is None or p99 is None:
            return "<Sketch empty>"
        return f"<Sketch of {self.count}: p50 {p50:.3g} s, p99 {p99:.3g} s>"
