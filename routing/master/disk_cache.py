"""Disk cache: the last good routing table in files, so that a proxy can start while Redis is away.

One file holds the manifest, and one file for each fleet holds its snapshot, in the JSON that Redis carries.
Each file is replaced as a whole, so a reader sees an old one or a new one. A damaged file affects that file
only.
"""

import contextlib
import logging
import os
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from routing.contract.decode_errors import DECODE_ERRORS
from routing.contract.state_directory import FLEET_FILE_PREFIX, MANIFEST_FILE
from routing.contract.table import (
    FleetSnapshot,
    Manifest,
    Version,
    decode_manifest,
    decode_snapshot,
    encode,
    implausible,
)

log = logging.getLogger(__name__)

_Message = TypeVar("_Message", Manifest, FleetSnapshot)


class DiskCache:
    """The files of one state directory. Blocking: call :meth:`save` outside the event loop."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._saved: dict[str, tuple[int, int]] = {}

    def load(self) -> tuple[Manifest, list[FleetSnapshot]] | None:
        """What was saved last; ``None``: there is nothing that can be read."""
        manifest = self._read(MANIFEST_FILE, decode_manifest)
        if manifest is None:
            return None
        found = (self._read(_file_of(name), decode_snapshot) for name in sorted(manifest.fleets))
        snapshots = [snapshot for snapshot in found if snapshot is not None]
        return manifest, snapshots

    def save(self, manifest: Manifest, snapshots: Iterable[FleetSnapshot]) -> None:
        """Write what differs from the last call, and remove the files of removed fleets. Raises OSError."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        kept = {MANIFEST_FILE}
        for snapshot in snapshots:
            kept.add(_file_of(snapshot.name))
            self._write(_file_of(snapshot.name), snapshot)
        self._write(MANIFEST_FILE, manifest)
        for path in self._directory.glob(f"{FLEET_FILE_PREFIX}*.json"):
            if path.name not in kept:
                path.unlink(missing_ok=True)
                self._saved.pop(path.name, None)

    def _read(self, file: str, decode: Callable[[bytes], _Message]) -> _Message | None:
        try:
            message = decode((self._directory / file).read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, *DECODE_ERRORS) as problem:
            log.warning("the copy %s cannot be used: %s", self._directory / file, problem)
            return None
        if why := implausible(Version(message.epoch, message.version)):
            log.warning("the copy %s cannot be used: %s", self._directory / file, why)
            return None
        return message

    def _write(self, file: str, message: Manifest | FleetSnapshot) -> None:
        version = (message.epoch, message.version)
        if self._saved.get(file) == version:
            return
        handle, temporary = tempfile.mkstemp(dir=self._directory, prefix=".", suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as output:
                output.write(encode(message))
                output.flush()
                os.fsync(output.fileno())
            os.replace(temporary, self._directory / file)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        self._saved[file] = version


def _file_of(fleet: str) -> str:
    """A fleet's name is a slug, so it can be used in a file name. Anything else is refused all the same."""
    if "/" in fleet or "\0" in fleet:
        raise ValueError(f"{fleet!r} is not a fleet name")
    return f"{FLEET_FILE_PREFIX}{fleet}.json"
