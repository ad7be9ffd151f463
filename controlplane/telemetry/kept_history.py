"""Kept history: rows of five minutes as texts in the database, and back."""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from controlplane.models.fleet_history import SLOT_S
from controlplane.services import fleet_history
from controlplane.services.fleet_history import HistoryTexts
from controlplane.telemetry.measures import HistoryRow

_encode = msgspec.json.encode
_decode = msgspec.json.Decoder(list[HistoryRow]).decode


def written(row: HistoryRow) -> HistoryTexts:
    """As the database has it."""
    values = _encode([row.at, row.values]).decode()
    return HistoryTexts(row.at, values, bytes(row.ended).decode(), bytes(row.sketches).decode())


def read(fleet_id: int, since: datetime, *, for_longer_times: bool) -> list[HistoryRow]:
    """A fleet's rows that ended after ``since``, oldest first, without totals. ``for_longer_times``:
    with their sketches."""
    if not for_longer_times:
        return _decode(_array(fleet_history.values(fleet_id, since)))
    rows = fleet_history.values_and_sketches(fleet_id, since)
    return _decode(_array(f"{values[:-1]},null,{sketches},{SLOT_S}]" for values, sketches in rows))


def _array(texts: Iterable[str]) -> str:
    # Decoded in one go: of 90 days there are 26,000.
    return f"[{','.join(texts)}]"
