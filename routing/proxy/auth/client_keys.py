"""Authentication by client keys (API keys): which keys are valid, and which fleets each may use.

A key is looked up by its keyed hash. The time of the lookup does not help a guess: one changed character
changes the whole hash, so how far two hashes agree says nothing about the key. Keys that were found are also
kept in plain text, so that each is hashed once and not with every request. That lookup compares bytes only
of keys with the same randomised hash (SipHash, with a new secret in each process).
"""

from routing.contract.client_keys import ALL_FLEETS, key_hash, salt_bytes
from routing.contract.priority import DEFAULT_RANK, rank_of
from routing.contract.table import Manifest
from routing.shared.key_quota import KeyQuota
from routing.shared.key_quotas import KeyQuotas

_LONGEST = 128
"""Bytes of a key. No key is issued that is longer, so a longer one is not even hashed."""


class Grant:
    """What a valid key may use, and how its requests are treated."""

    __slots__ = ("fleets", "priority", "quota")

    def __init__(
        self, fleets: frozenset[str], priority: int = DEFAULT_RANK, quota: KeyQuota | None = None
    ) -> None:
        self.fleets = fleets
        """Names; see :meth:`opens`."""
        self.priority = priority
        """As :meth:`routing.proxy.exchange.state.ExchangeState.priority`."""
        self.quota = quota
        """``None``: it has no limits, and its requests are not counted."""

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
        """Valid keys that clients have presented, so never more than there are valid keys."""

    def __bool__(self) -> bool:
        """Whether there is any key."""
        return bool(self._fleets)

    def grant(self, key: bytes) -> Grant | None:
        """What the key may use; ``None``: it is unknown, or was revoked."""
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
