"""Raw entries of a fleet file: walking through it as it was written, before it is known to be right."""

from collections.abc import Iterator, Mapping
from typing import Any

RawEntry = tuple[str, Mapping[str, Any]]
"""(JSON pointer, group of fields)."""


def entries_of(of: RawEntry, key: str) -> Iterator[RawEntry]:
    """The groups in one of its lists; whatever is no group is passed over."""
    pointer, fields = of
    items = fields.get(key)
    for index, item in enumerate(items if isinstance(items, list) else []):
        if isinstance(item, Mapping):
            yield f"{pointer}/{key}/{index}", item


def texts_of(parts: list[RawEntry], key: str) -> Iterator[str]:
    """What these groups say in one field, where it is text."""
    return (fields[key] for _, fields in parts if isinstance(fields.get(key), str))
