"""Authentication by client keys (API keys): which are in force here, and what each opens.

A key is looked up by its keyed hash. The time that takes does not depend on the guess: one changed character
changes all of the hash, so how far two hashes agree says nothing about the key. Keys that were found are also
kept in plain, so that each is hashed once and not with every request. That lookup compares bytes only of keys
with the same randomised hash (SipHash, keyed anew in each process).
"""

from routing.contract.client_keys import ALL_FLEETS, key_hash, salt_bytes
from routing.contract.priority import DEFAULT_RANK, rank_of
from routing.contract.table import Manifest
from routing.shared.key_quota import KeyQuota
from routing.shared.key_quotas import KeyQuotas

_LONGEST = 128
"""Bytes of a key. A longer one was never given out, and is not worth hashing."""


class Grant:
    """What a valid key opens, and how its requests are treated."""

    __slots__ = ("fleets", "priority", "quota")

    def __init__(
        self, fleets: frozenset[str], priority: int = DEFAULT_RANK, quota: KeyQuota | None = None
    ) -> None:
        self.fleets = fleets
        """Names; see :meth:`opens`."""
        self.priority = priority
        """As :meth:`routing.proxy.exchange.state.ExchangeState.priority`."""
        self.quota = quota
        """``None``: no counts are kept of it, and it has no limits."""

    def opens(self, fleet: str) -> bool:
        """Whether the key may be used for the fleet."""
        return fleet in self.fleets or ALL_FLEETS in self.fleets


class ClientKeys:
    """The keys of one manifest. Immutable: a new manifest replaces them."""

    __slots__ = ("_fleets", "_limits", "_salt", "_seen", "_uses")

    def __init__(self, manifest: Manifest, uses: KeyQuotas) -> None:
        """``manifest`` has been checked (:func:`routing.balancing.pool.table.check_manifest`)."""
        self._fleets = manifest.key_hashes
        self._limits = manifest.key_limits
        self._uses = uses
        uses.follow(self._fleets, self._limits)
        self._salt = salt_bytes(manifest.key_salt) if self._fleets else b""
        self._seen: dict[bytes, Grant] = {}
        """Keys in force that somebody has presented: never more than there are."""

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self._fleets)

    def grant(self, key: bytes) -> Grant | None:
        """What the key opens; ``None``: it is not known, or revoked."""
        grant = self._seen.get(key)
        if grant is None and len(key) <= _LONGEST and self._fleets:
            digest = key_hash(self._salt, key)
            fleets = self._fleets.get(digest)
            if fleets is not None:
                self._seen[key] = grant = self._grant(digest, frozenset(fleets))
        return grant

    def _grant(self, digest: str, fleets: frozenset[str]) -> Grant:
        limits = self._limits.get(digest)
        if limits is None:
            return Grant(fleets)
        return Grant(fleets, rank_of(limits.priority), self._uses.of(digest, limits))
