"""Leases (self-registration): replicas that register themselves, and stay as long as they renew.

What a lease that is missing, or that has run out, means is in :mod:`controlplane.discovery.lease_store` and
:mod:`controlplane.discovery.leases`.
"""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import redis

from controlplane.daemon_threads import in_daemon_thread
from controlplane.discovery import leases
from controlplane.discovery.fleet_view import OwnRow
from controlplane.discovery.kinds.kind import SourceError, entry_of, no_changes
from controlplane.discovery.lease_store import LeaseStore
from controlplane.discovery.listing import Listing
from routing.contract.defaults import without_defaults
from routing.contract.fleet_file import ReplicaEntry
from routing.contract.fleet_file.sources.lease import LEASE_FIELDS

READ_WITHIN_S = 5.0
FORGOTTEN_AFTER_S = 60.0
"""A lease that has run out, or was released, and has no replica any more."""


class LeaseList:
    wants_own = True

    def __init__(self, client: "redis.Redis", uid: str, ttl_s: float, template: Mapping[str, Any]) -> None:
        self._store = LeaseStore(client, uid)
        self._ttl_s = ttl_s
        self._template = template
        self._back: float | None = None
        self._last_step: float | None = None

    async def read(self, own: Mapping[str, OwnRow]) -> Listing:
        try:
            return await in_daemon_thread(lambda: self._list(own), within_s=READ_WITHIN_S)
        except redis.RedisError as error:
            raise SourceError("Redis, which has the leases, does not answer") from error

    def changes(self) -> AsyncIterator[None]:
        """The bell tells of them (:mod:`controlplane.discovery.bell`)."""
        return no_changes()

    async def close(self) -> None:
        return

    def _list(self, own: Mapping[str, OwnRow]) -> Listing:
        found, now = self._store.read()
        self._back = leases.back_at(self._back, self._last_step, now)
        self._last_step = now
        lost = {
            name: _settings(row) for name, row in own.items() if name not in found and row.drained_at is None
        }
        self._store.regrant(lost, self._ttl_s)
        valid = {
            name: lease.settings
            for name, lease in found.items()
            if not lease.leaving and leases.is_valid(lease.expires_at, lease.ttl_s, self._back, now)
        }
        over = found.keys() - valid.keys() - own.keys()
        self._store.forget(name for name in over if now - found[name].expires_at > FORGOTTEN_AFTER_S)
        claims = self._store.claims(2 * self._ttl_s)
        return Listing(
            {name: self._entry(name, settings) for name, settings in (valid | lost).items()},
            leaving=frozenset(name for name, lease in found.items() if lease.leaving),
            note=_claimed_twice(claims, valid),
        )

    def _entry(self, name: str, settings: Mapping[str, object]) -> ReplicaEntry:
        return entry_of({**self._template, **settings, "name": name})


def _claimed_twice(claims: Mapping[str, str], valid: Mapping[str, Mapping[str, object]]) -> str:
    """Names that two servers claim, in words. One that has got it since claims it no more."""
    both = sorted((name, url) for name, url in claims.items() if valid.get(name, {}).get("url", url) != url)
    if not both:
        return ""
    name, url = both[0]
    more = f" (and {len(both) - 1} more names)" if len(both) > 1 else ""
    return f"{url} claims the name {name} too, and is refused: give one of the two another name{more}"


def _settings(row: OwnRow) -> dict[str, object]:
    """As the replica registered itself, as far as can be told from what became of it."""
    told = without_defaults(row.entry)
    return {name: value for name, value in told.items() if name in LEASE_FIELDS}
