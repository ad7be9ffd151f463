"""Client keys (API keys) of a standalone proxy: read by the fleet file's references, kept only as hashes."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from routing.contract import input_file
from routing.contract.client_keys import ALL_FLEETS, is_key, key_hash, salt_bytes
from routing.contract.fleet_file.structs import ClientKeyEntry
from routing.contract.table import KeyLimits

_MAX_BYTES = 4096
"""Of a file with one key."""
_MAKE_ONE = "python -c \"import secrets; print('sy-' + secrets.token_hex(24))\" makes one"


class FileKeys(NamedTuple):
    """The keys of a manifest, by their hashes."""

    fleets: dict[str, list[str]]
    limits: dict[str, KeyLimits]


def hash_keys(
    entries: Sequence[ClientKeyEntry], folder: Path, salt: str
) -> tuple[FileKeys, list[tuple[int, str]]]:
    """The keys, and for each invalid entry its index and what is wrong. ``folder``: for relative paths."""
    found = FileKeys({}, {})
    problems = []
    for index, entry in enumerate(entries):
        try:
            digest = key_hash(salt_bytes(salt), _key(entry.key, folder).encode())
        except ValueError as error:
            problems.append((index, f"{entry.key}: {error}"))
            continue
        if digest in found.fleets:
            problems.append((index, f"{entry.key}: another entry has the same key: give each its own"))
        found.fleets[digest] = [ALL_FLEETS] if entry.fleets is None else entry.fleets
        found.limits[digest] = KeyLimits(
            id=entry.name,
            priority=entry.priority,
            weight=entry.weight,
            requests_per_minute=entry.requests_per_minute,
            max_concurrency=entry.max_concurrency,
            tokens_per_minute=entry.tokens_per_minute,
        )
    return found, problems


def _key(reference: str, folder: Path) -> str:
    """Raises ValueError; its message never contains the value."""
    kind, _, place = reference.partition(":")
    if kind == "env":
        if place not in os.environ:
            raise ValueError("the environment variable is not set")
        key = os.environ[place].strip()
    else:
        try:
            key = input_file.read(folder / place, _MAX_BYTES).decode("ascii").strip()
        except OSError as error:
            raise ValueError(f"cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise ValueError(f"it is not a client key; {_MAKE_ONE}") from None
    if not is_key(key):
        raise ValueError(f"it is not a client key (sy- and at least 32 digits); {_MAKE_ONE}")
    return key
