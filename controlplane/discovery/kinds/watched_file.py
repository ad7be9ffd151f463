"""Watched file (file-based service discovery): replicas listed in a YAML or JSON file.

The file is a list of replicas as a fleet file has them, or a group with ``replicas`` and, if wanted,
``size``: how many there are. A file whose ``size`` is not the length of its list is half-written. With it a
file may say that few or none are left, and is believed.

It is read again when its inode, size or time of change differ, so that one that is replaced atomically and
one that is rewritten are both seen. A file that is missing or cannot be read is a source that is away.
"""

import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from controlplane.daemon_threads import in_daemon_thread
from controlplane.discovery.fleet_view import OwnRow
from controlplane.discovery.kinds.kind import SourceError, entries_of, no_changes
from controlplane.discovery.listing import Listing
from routing.contract import input_file
from routing.contract.field_rules import found, path_of
from routing.contract.fleet_file import yaml_document

MOST_BYTES = 8 * 1024 * 1024
READ_WITHIN_S = 30.0
_FIELDS = {"replicas", "size"}

WatchedFileVersion = tuple[int, int, int]
"""Inode, bytes, time of change in ns."""


class WatchedFile:
    wants_own = False

    def __init__(self, folder: Path, path: str, template: Mapping[str, Any]) -> None:
        self._folder = folder
        self._path = path
        self._template = template
        self._last: tuple[WatchedFileVersion, Listing] | None = None

    async def read(self, own: Mapping[str, OwnRow]) -> Listing:
        return await in_daemon_thread(self._list, within_s=READ_WITHIN_S)

    def changes(self) -> AsyncIterator[None]:
        return no_changes()

    async def close(self) -> None:
        return

    def _list(self) -> Listing:
        file = self._folder / self._path
        try:
            stamp = self._stamp(file)
            if self._last is not None and self._last[0] == stamp:
                return self._last[1]
            data = input_file.read(file, MOST_BYTES)
            if self._stamp(file) != stamp:
                raise SourceError(f"file {self._path} is being written")
        except FileNotFoundError:
            raise SourceError(f"there is no file {self._path} in {self._folder}") from None
        except OSError as error:
            raise SourceError(f"file {self._path} cannot be read: {error.strerror or error}") from None
        listing = parse(data, self._path, self._template)
        self._last = stamp, listing
        return listing

    def _stamp(self, file: Path) -> WatchedFileVersion:
        """Raises OSError, SourceError."""
        real = Path(os.path.realpath(file))
        if not real.is_relative_to(os.path.realpath(self._folder)):
            raise SourceError(f"file {self._path} is a link that leads out of {self._folder}: put it there")
        stat = os.stat(real)
        return stat.st_ino, stat.st_size, stat.st_mtime_ns


def _json(data: bytes, name: str) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise SourceError(f"file {name}, {where}: is no JSON: {error.msg}") from None


def _yaml(data: bytes, name: str) -> Any:
    try:
        document = yaml_document.read(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise SourceError(f"file {name} is not UTF-8: save it as UTF-8") from None
    for flaw in document.flaws:
        path = path_of(flaw.pointer)
        where = f"line {flaw.place.line}, column {flaw.place.column}"
        raise SourceError(f"file {name}, {where}: {f'{path}: ' if path else ''}{flaw.message}")
    return document.content


def parse(data: bytes, name: str, template: Mapping[str, Any]) -> Listing:
    """Raises SourceError."""
    if not data.strip():
        raise SourceError(f"file {name} is empty: where there are no replicas, write []")
    content, at, size = _json(data, name) if name.endswith(".json") else _yaml(data, name), "", None
    if isinstance(content, Mapping):
        at, size = "/replicas", content.get("size")
        if unknown := [key for key in content if key not in _FIELDS]:
            raise SourceError(f'file {name}: unknown field "{unknown[0]}"; it can have: replicas, size')
        content = content.get("replicas")
    if not isinstance(content, list):
        raise SourceError(
            f"file {name} must be a list of replicas, or have one in replicas, not {found(content)}"
        )
    entries = entries_of(content, template, at)
    if size is not None and (isinstance(size, bool) or size != len(entries)):
        raise SourceError(f"file {name} lists {len(entries)} replicas, but its size says {found(size)}")
    return Listing(entries, declared_size=size)
