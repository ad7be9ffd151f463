"""History series: rows of history as one list of values for each metric, at any step. Pure.

A value of a longer time is made from the rows in it: rates and gauges are averaged, percentiles are those of
the rows' merged sketches.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import msgspec

from controlplane.telemetry.frames import Point
from controlplane.telemetry.measures import (
    FIELDS,
    KINDS,
    PERCENTILES,
    REASONS,
    HistoryRow,
    merged_sketches,
    packed_sketches,
)
from routing.contract import sketch
from routing.contract.ended_requests import EndedRequests

_INDEX = {name: at for at, name in enumerate(FIELDS)}
_decode = msgspec.json.Decoder(HistoryRow).decode


@dataclass(frozen=True, slots=True)
class Series:
    """``at``: when the time of each value ended, Unix seconds. ``values``: by metric, one for each."""

    at: list[float]
    values: dict[str, list[Any]]


def decoded(texts: Iterable[bytes | str], since: float = 0.0) -> list[HistoryRow]:
    """Rows of after ``since``; what another version wrote and cannot be read is left out."""
    rows = []
    for text in texts:
        try:
            row = _decode(text)
        except msgspec.MsgspecError:
            continue
        if row.at >= since:
            rows.append(row)
    return rows


def of_points(points: Sequence[Point], metrics: Sequence[str]) -> Series:
    """Points as they are."""
    values: dict[str, list[Any]] = {
        name: [getattr(point, name) for point in points] for name in metrics if name != REASONS
    }
    if REASONS in metrics:
        values |= _by_reason([point.error_reasons for point in points])
    return Series([point.at for point in points], values)


def of_rows(rows: Sequence[HistoryRow], metrics: Sequence[str]) -> Series:
    """Rows as they are."""
    columns: dict[str, list[Any]] = {}
    for name in metrics:
        at, missing = _INDEX[name], None if name in PERCENTILES else 0.0
        columns[name] = [row.values[at] if at < len(row.values) else missing for row in rows]
    if REASONS in columns:
        columns |= _by_reason([found or {} for found in columns.pop(REASONS)])
    return Series([row.at for row in rows], columns)


def kinds_of(metrics: Iterable[str]) -> frozenset[str]:
    """The sketches that these metrics are read from."""
    return frozenset(PERCENTILES[name][0] for name in metrics if name in PERCENTILES)


def coarser(
    rows: Sequence[HistoryRow],
    step_s: int,
    until: float,
    kinds: Collection[str] = KINDS,
    *,
    with_totals: bool = True,
) -> list[HistoryRow]:
    """Rows as such of ``step_s`` seconds, at multiples of that, those that are over at ``until``. Their
    sketches are merged. ``rows``: of no more seconds than that each, oldest first. ``kinds``: of sketches;
    others are left out. ``with_totals``: also add up exact totals."""
    found = []
    for end, group in groupby(rows, key=lambda row: _end(row.at, step_s)):
        if end <= until:
            found.append(_together(list(group), end, step_s, kinds, with_totals))
    return found


def _end(at: float, step_s: int) -> int:
    return -(-int(at) // step_s) * step_s


def _together(
    rows: list[HistoryRow], end: int, step_s: int, kinds: Collection[str], with_totals: bool
) -> HistoryRow:
    sketches = merged_sketches(rows, kinds)
    values: list[Any] = []
    for at, name in enumerate(FIELDS):
        if name in PERCENTILES:
            kind, q = PERCENTILES[name]
            values.append(sketch.quantile(sketches.get(kind, {}), q))
        elif name == REASONS:
            values.append(_reasons(rows, at, step_s))
        else:
            whole = sum(row.values[at] * row.seconds for row in rows if at < len(row.values))
            values.append(round(whole / step_s, 6))
    ended = _ended(rows) if with_totals else msgspec.Raw(b"null")
    return HistoryRow(end, values, ended, packed_sketches(sketches), step_s)


def _ended(rows: list[HistoryRow]) -> msgspec.Raw:
    known = [msgspec.json.decode(row.ended, type=EndedRequests | None) for row in rows]
    total = EndedRequests()
    counted = [one for one in known if one is not None]
    for one in counted:
        total = total.plus(one)
    return msgspec.Raw(msgspec.json.encode(total if counted else None))


def _reasons(rows: list[HistoryRow], at: int, step_s: int) -> dict[str, float]:
    found: dict[str, float] = {}
    for row in rows:
        for reason, per_s in row.values[at].items() if at < len(row.values) else ():
            found[reason] = round(found.get(reason, 0.0) + per_s * row.seconds / step_s, 6)
    return found


def _by_reason(rates: Sequence[Mapping[str, float]]) -> dict[str, list[Any]]:
    reasons = sorted({reason for each in rates for reason in each})
    return {f"{REASONS}.{reason}": [each.get(reason, 0.0) for each in rates] for reason in reasons}
