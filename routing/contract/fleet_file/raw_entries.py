"""Raw entries of a fleet file: its unvalidated content, as it was written."""

from collections.abc import Iterator, Mapping
from typing import Any

RawEntry = tuple[str, Mapping[str, Any]]
"""(JSON pointer, group of fields)."""


def entries_of(of: RawEntry, key: str) -> Iterator[RawEntry]:
    """The groups in one of its lists; items that are not groups are skipped."""
    pointer, fields = of
    items = fields.get(key)
    for index, item in enumerate(items if isinstance(items, list) else []):
        if isinstance(item, Mapping):
            yield f"{pointer}/{key}/{index}", item


def texts_of(parts: list[RawEntry], key: str) -> Iterator[str]:
    """The values of one field in these groups, if they are text."""
    return (fields[key] for _, fields in parts if isinstance(fields.get(key), str))
