"""Publisher: the routing table into Redis, after each write at once; each second what is missing.

The database is the truth. A message is stored only when it is newer than what Redis holds, so
publishers may run at the same time in any number of processes, in any order.
"""

import logging
import threading
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import msgspec
from redis.exceptions import RedisError

from controlplane.datastores import redis
from controlplane.models import Fleet
from controlplane.observability.metrics import PUBLISHES
from controlplane.publishing import epochs, snapshots
from controlplane.publishing.acknowledgements import Acknowledged, acknowledged
from controlplane.publishing.snapshots import TableVersions
from routing.contract import redis_keys
from routing.contract.decode_errors import DECODE_ERRORS
from routing.contract.table import FleetSnapshot, Manifest, Version, encode

__all__ = [
    "Acknowledged",
    "acknowledged",
    "manifest",
    "publish",
    "publish_all",
    "publish_fleet",
    "publish_manifest",
    "snapshot_of",
]

logger = logging.getLogger(__name__)

MANIFEST_CHANGED = "*"
manifest = snapshots.manifest


def snapshot_of(fleet: Fleet) -> FleetSnapshot:
    """The fleet as proxies are to see it, read anew."""
    return snapshots.snapshots_of([fleet.pk])[0]


def publish_fleet(fleet_id: int) -> bool:
    """See :func:`publish`."""
    return publish([fleet_id], with_manifest=False)


def publish_manifest() -> bool:
    """See :func:`publish`."""
    return publish([], with_manifest=True)


def publish(fleet_ids: Iterable[int], *, with_manifest: bool, removed: Collection[str] = ()) -> bool:
    """Stores these fleets' snapshots, then the manifest, so that a fleet is complete when it is listed.

    False: Redis is away. Nothing is lost: :func:`publish_all` stores it when Redis is back.
    """
    messages: list[Manifest | FleetSnapshot] = list(snapshots.snapshots_of(fleet_ids))
    if with_manifest:
        messages.append(snapshots.manifest())
    try:
        _store(messages, removed)
    except RedisError as error:
        logger.warning("not published, Redis does not answer: %s", error)
        PUBLISHES.labels("redis_away").inc()
        return False
    PUBLISHES.labels("stored").inc()
    return True


def _store(messages: Sequence[Manifest | FleetSnapshot], removed: Collection[str] = ()) -> None:
    pipeline = redis.client().pipeline(transaction=False)
    for message in messages:
        key, announcement = _key_and_announcement(message)
        pipeline.eval(
            redis_keys.STORE_IF_NEWER,
            1,
            key,
            message.epoch,
            message.version,
            encode(message),
            redis_keys.CHANGES_CHANNEL,
            announcement,
        )
    for name in removed:
        pipeline.delete(redis_keys.fleet_key(name), redis_keys.fleet_acks_key(name))
    pipeline.execute()


def _key_and_announcement(message: Manifest | FleetSnapshot) -> tuple[str, str]:
    if isinstance(message, Manifest):
        return redis_keys.MANIFEST, MANIFEST_CHANGED
    return redis_keys.fleet_key(message.name), message.name


# --- The reconcile ---

_contents_compared = threading.Event()
"""Set once this process has seen that Redis and database agree in content, not in version alone."""


def publish_all() -> int:
    """Brings Redis to what the database says; how many messages were stored.

    While nothing is missing it costs two queries and one round trip. The first time in a process it
    also compares contents, which finds a database that was replaced by another with the same
    versions. When Redis holds what this database never wrote, the epoch is raised, so that proxies
    take the database's table again. Raises redis.RedisError while Redis is away.
    """
    wanted = snapshots.current_versions()
    thorough = not _contents_compared.is_set()
    stored = _stored(wanted)
    if _ahead(stored, wanted):
        # Somebody may have written and published between the two reads.
        wanted = snapshots.current_versions()
        if newest := _ahead(stored, wanted):
            return _raise_epoch(newest)
    missing = [key for key, version in _wanted_keys(wanted).items() if _is_older(stored.get(key), version)]
    if missing:
        _store(_messages(missing))
    if thorough:
        foreign = _foreign(wanted)
        if foreign:
            return len(missing) + _raise_epoch(foreign)
        _contents_compared.set()
    return len(missing)


def _raise_epoch(seen: Version) -> int:
    epochs.raise_beyond(seen)
    messages = _all_messages()
    _store(messages)
    return len(messages)


def _wanted_keys(wanted: TableVersions) -> dict[str, Version]:
    """Snapshots first, the manifest last."""
    keys = {redis_keys.fleet_key(name): wanted.fleet_version(name) for name in wanted.fleets}
    return {**keys, redis_keys.MANIFEST: wanted.manifest_version}


def _stored(wanted: TableVersions) -> dict[str, Version]:
    keys = list(_wanted_keys(wanted))
    pipeline = redis.client().pipeline(transaction=False)
    for key in keys:
        pipeline.hmget(key, "epoch", "version")
    answers: list[list[bytes | None]] = pipeline.execute()
    return {
        key: Version(int(epoch), int(version))
        for key, (epoch, version) in zip(keys, answers, strict=True)
        if epoch is not None and version is not None
    }


def _ahead(stored: dict[str, Version], wanted: TableVersions) -> Version | None:
    """The newest version in Redis that the database has not reached."""
    ours = _wanted_keys(wanted)
    return max(
        (version for key, version in stored.items() if key in ours and version > ours[key]), default=None
    )


def _is_older(stored: Version | None, wanted: Version) -> bool:
    return stored is None or stored < wanted


def _messages(keys: Sequence[str]) -> list[Manifest | FleetSnapshot]:
    names = {key.removeprefix(redis_keys.fleet_key("")) for key in keys}
    ids = Fleet.objects.filter(name__in=names).values_list("pk", flat=True)
    found: list[Manifest | FleetSnapshot] = list(snapshots.snapshots_of(ids))
    if redis_keys.MANIFEST in keys:
        found.append(snapshots.manifest())
    return found


def _all_messages() -> list[Manifest | FleetSnapshot]:
    return [*snapshots.snapshots_of(), snapshots.manifest()]


def _foreign(wanted: TableVersions) -> Version | None:
    """The version of a message in Redis that carries our version and another content."""
    ours = _all_messages()
    pipeline = redis.client().pipeline(transaction=False)
    for message in ours:
        pipeline.hmget(_key_and_announcement(message)[0], "epoch", "version", "body")
    for message, (epoch, version, body) in zip(ours, pipeline.execute(), strict=True):
        same_version = (epoch, version) == (str(message.epoch).encode(), str(message.version).encode())
        if same_version and not _same_content(message, body):
            return Version(message.epoch, message.version)
    return None


def _same_content(message: Manifest | FleetSnapshot, body: bytes | None) -> bool:
    try:
        stored: Any = msgspec.json.decode(body or b"", type=type(message))
    except DECODE_ERRORS:
        return False
    if isinstance(message, Manifest):
        # The versions of fleets in it are those of the moment when it was made.
        return stored.fleets.keys() == message.fleets.keys() and _nameless(stored) == _nameless(message)
    return bool(stored == message)


def _nameless(message: Manifest) -> Manifest:
    return msgspec.structs.replace(message, fleets={})
