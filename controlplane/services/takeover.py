"""Takeover: this installation's table in place of another's, at the same Redis and proxies, on purpose."""

from typing import NamedTuple

import msgspec

from controlplane.datastores import redis
from controlplane.models import Event, Fleet, TableState
from controlplane.publishing import installation, publisher
from controlplane.services.unit_of_work import unit_of_work
from routing.contract import redis_keys
from routing.contract.decode_errors import DECODE_ERRORS
from routing.contract.table import decode_manifest


class Takeover(NamedTuple):
    """What would change hands."""

    ours: str
    """Id of this installation."""
    bound_to: str
    """Installation that Redis is bound to; empty: none."""
    by_copy: bool
    """Redis is bound to another database with our id, which is running."""
    is_running: bool
    """Whether the control plane that Redis is bound to is."""
    workers: dict[str, int]
    """Other installations → proxy workers that route for them."""
    fleets: list[str]
    """Of the table in Redis that is replaced."""
    routed: list[str]
    """Of those workers: Redis may have lost them, or hold our table already."""
    own_fleets: list[str]

    @property
    def others(self) -> list[str]:
        """Installations that are followed."""
        return sorted(({self.bound_to} | self.workers.keys()) - {"", self.ours})

    @property
    def needed(self) -> bool:
        return bool(self.others) or self.by_copy

    @property
    def lost(self) -> list[str]:
        """Fleets that are routed for now and not afterwards."""
        return sorted({*self.fleets, *self.routed} - set(self.own_fleets))


def look() -> Takeover:
    """Raises redis.RedisError."""
    ours, bound = installation.identity(), installation.binding()
    reports = installation.live_reports()
    others = [one for one in reports if one.installation and one.installation != ours.id]
    return Takeover(
        ours=ours.id,
        bound_to=bound.id,
        by_copy=bound.is_copy_of(ours.id, ours.instance),
        is_running=bound.is_live,
        workers=installation.followed(others),
        fleets=_fleets_in_redis(),
        routed=sorted({fleet.name for report in others for fleet in report.fleets}),
        own_fleets=list(Fleet.objects.order_by("name").values_list("name", flat=True)),
    )


def _fleets_in_redis() -> list[str]:
    body = redis.client().hget(redis_keys.MANIFEST, "body")
    try:
        return sorted(decode_manifest(body if isinstance(body, bytes) else b"{}").fleets)
    except (msgspec.MsgspecError, *DECODE_ERRORS):
        return []


def take_over(found: Takeover, actor: str) -> None:
    """Binds Redis to this installation, and publishes its table as one that proxies of the others accept.

    Its epoch is later than that of whoever has Redis now, who may have taken it over from this one before,
    and would have it back at once. Raises redis.RedisError; done again, it does what is left.
    """
    with unit_of_work(actor) as write:
        state = installation.settled()
        before = list(state.succeeded)
        after = [*before, *(other for other in found.others if other not in before)]
        epoch = max(state.epoch, installation.binding().epoch) + 1
        TableState.objects.update(succeeded=after, epoch=epoch)
        write.bump_tables(*Fleet.objects.values_list("pk", flat=True))  # they are sent before the manifest
        write.manifest_changed()
        write.audit("installation.takeover", found.ours, {"succeeded": before}, {"succeeded": after})
        others = ", ".join(found.others) or "another database with the same installation id"
        text = f"{actor} took over Redis and its proxies from {others}"
        write.event(Event.Kind.SYSTEM, text)
        # Before it commits, which publishes.
        installation.take(installation.identity())
    publisher.publish_all(installation.live_reports())
