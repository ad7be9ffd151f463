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


class KeyGrant:
    """What a valid key may use, and how its requests are treated."""

    __slots__ = ("fleets", "priority", "quota", "weight")

    def __init__(
        self,
        fleets: frozenset[str],
        priority: int = DEFAULT_RANK,
        quota: KeyQuota | None = None,
        weight: float = 1.0,
    ) -> None:
        self.fleets = fleets
        """Names; see :meth:`opens`."""
        self.priority = priority
        """As :meth:`routing.proxy.exchange.state.ExchangeState.priority`."""
        self.quota = quota
        """``None``: it has no limits, and its requests are not counted."""
        self.weight = weight
        """As :meth:`routing.proxy.exchange.state.ExchangeState.weight`."""

    def opens(self, fleet: str) -> bool:
        """Whether the key may be used for the fleet."""
        return fleet in self.fleets or ALL_FLEETS in self.fleets


EVERYBODY = KeyGrant(frozenset({ALL_FLEETS}))
"""Of requests without a known key, where keys are not required."""


class ClientKeys:
    """The keys of one manifest. Immutable: a new manifest replaces them."""

    __slots__ = ("_fleets", "_limits", "_salts", "_seen", "_uses", "required")

    def __init__(self, manifest: Manifest, uses: KeyQuotas) -> None:
        """``manifest`` has been checked (:func:`routing.balancing.pool.table.check_manifest`)."""
        self._fleets = manifest.key_hashes
        self._limits = manifest.key_limits
        said = manifest.keys_required
        self.required = bool(self._fleets) if said is None else said
        """Whether a request without a known key is refused."""
        self._uses = uses
        uses.follow(self._fleets, self._limits)
        salts = (manifest.key_salt, manifest.former_salt) if self._fleets else ()
        self._salts = tuple(salt_bytes(salt) for salt in salts if salt)
        self._seen: dict[bytes, KeyGrant] = {}
        """Valid keys that clients have presented, so never more than there are valid keys."""

    def __bool__(self) -> bool:
        """Whether there is any key."""
        return bool(self._fleets)

    def grant(self, key: bytes) -> KeyGrant | None:
        """What the key may use; ``None``: it is unknown, or was revoked."""
        grant = self._seen.get(key)
        if grant is None and len(key) <= _LONGEST:
            for salt in self._salts:
                digest = key_hash(salt, key)
                fleets = self._fleets.get(digest)
                if fleets is not None:
                    self._seen[key] = grant = self._grant(digest, frozenset(fleets))
                    break
        return grant

    def _grant(self, digest: str, fleets: frozenset[str]) -> KeyGrant:
        limits = self._limits.get(digest)
        if limits is None:
            return KeyGrant(fleets)
        return KeyGrant(fleets, rank_of(limits.priority), self._uses.of(digest, limits), limits.weight)
