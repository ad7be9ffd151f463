"""Which client keys are in force here, and what each opens.

A key is looked up by its keyed hash. That takes equally long wherever a guess goes wrong: changing one
character of a guess changes all of the hash, so how far two hashes agree tells nothing about the key. Keys
that were found are kept as they were presented, so that each is hashed once and not with every request; that
lookup compares bytes only of keys whose randomised hash (SipHash, keyed anew in each process) agrees whole.
"""

from routing.contract.client_keys import ALL_FLEETS, key_hash, salt_bytes
from routing.contract.table import Manifest

Grant = frozenset[str]
"""Fleets that a key opens; see :func:`opens`."""

_LONGEST = 128
"""Bytes of a key. A longer one was never given out, and is not worth hashing."""


def opens(grant: Grant, fleet: str) -> bool:
    """Whether a key with this grant may be used for the fleet."""
    return fleet in grant or ALL_FLEETS in grant


class ClientKeys:
    """The keys of one manifest. Replaced, never changed, when another one is taken."""

    __slots__ = ("_by_hash", "_salt", "_seen")

    def __init__(self, manifest: Manifest) -> None:
        """``manifest`` has been checked (:func:`routing.table.check_manifest`)."""
        self._by_hash: dict[str, Grant] = {
            digest: frozenset(fleets) for digest, fleets in manifest.key_hashes.items()
        }
        self._salt = salt_bytes(manifest.key_salt) if self._by_hash else b""
        self._seen: dict[bytes, Grant] = {}
        """Keys in force that somebody has presented: never more than there are."""

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self._by_hash)

    def grant(self, key: bytes) -> Grant | None:
        """What the key opens; ``None``: it is not known, or revoked."""
        grant = self._seen.get(key)
        if grant is None and len(key) <= _LONGEST and self._by_hash:
            grant = self._by_hash.get(key_hash(self._salt, key))
            if grant is not None:
                self._seen[key] = grant
        return grant
