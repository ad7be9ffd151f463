"""Raising the epoch: the database was restored or replaced, and proxies know a later table than it does."""

import logging
from contextlib import suppress
from typing import NamedTuple

from django.db import transaction

from controlplane.datastores import redis
from controlplane.models import Event, TableState
from routing.contract import redis_keys
from routing.contract.table import Version, implausible

logger = logging.getLogger(__name__)


class Seen(NamedTuple):
    """A table in Redis or at proxies that is not this database's, or not any more."""

    version: Version
    installation: str | None = None
    """That wrote it; empty: it names none; ``None``: this one did."""


def raise_beyond(seen: Seen) -> int:
    """Begins an epoch later than ``seen`` and than the database's own; returns it."""
    with transaction.atomic():
        TableState.objects.get_or_create(pk=1)
        state = TableState.objects.select_for_update().get(pk=1)
        own = Version(state.epoch, state.manifest_version)
        epoch = max(seen.version.epoch, state.epoch) + 1
        TableState.objects.filter(pk=state.pk).update(epoch=epoch)
        text = f"{_reason(seen, own)} This database's table is sent again as epoch {epoch}."
        Event.objects.create(kind=Event.Kind.SYSTEM, text=text, actor="publisher")
    logger.warning("%s", text)
    return epoch


def _reason(seen: Seen, own: Version) -> str:
    if seen.installation is None:
        return (
            f"Proxies have table {seen.version}, which this database (at {own}) never wrote: it was restored "
            "or replaced."
        )
    if not seen.installation:
        return f"Table {seen.version} in Redis names no installation: an older version wrote it."
    return f"Table {seen.version} in Redis is of installation {seen.installation}, which this one follows."


def newest_in_redis() -> int:
    """The epoch of the manifest in Redis; 0: there is none, or none that counts. Raises redis.RedisError."""
    found = redis.client().hget(redis_keys.MANIFEST, "epoch")
    with suppress(ValueError):
        epoch = int(found or 0)
        return 0 if implausible(Version(epoch, 0)) else epoch
    return 0
