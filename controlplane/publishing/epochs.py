"""Raising the epoch: the database was restored or replaced, and proxies know a later table than it does."""

import logging

from django.db import transaction

from controlplane.datastores import redis
from controlplane.models import Event, TableState
from routing.contract import redis_keys
from routing.contract.table import Version

logger = logging.getLogger(__name__)


def raise_beyond(seen: Version) -> int:
    """Begins an epoch later than ``seen`` and than the database's own; returns it."""
    with transaction.atomic():
        TableState.objects.get_or_create(pk=1)
        state = TableState.objects.select_for_update().get(pk=1)
        own = Version(state.epoch, state.manifest_version)
        epoch = max(seen.epoch, state.epoch) + 1
        TableState.objects.filter(pk=state.pk).update(epoch=epoch)
        text = (
            f"Proxies have table {seen}, which this database (at {own}) never wrote: it was restored or "
            f"replaced. Its table is sent again as epoch {epoch}."
        )
        Event.objects.create(kind=Event.Kind.SYSTEM, text=text, actor="publisher")
    logger.warning("%s", text)
    return epoch


def newest_in_redis() -> int:
    """The epoch of the manifest in Redis; 0 when there is none. Raises redis.RedisError while it is away."""
    epoch = redis.client().hget(redis_keys.MANIFEST, "epoch")
    return int(epoch) if epoch else 0
