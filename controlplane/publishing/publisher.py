"""Publisher: the routing table into Redis, after each write at once; each second what is missing.

The database is the truth. A message is stored only when it is newer than what Redis holds, so
publishers may run at the same time in any number of processes, in any order. It is stored only in a Redis
that this installation is bound to (:mod:`controlplane.publishing.installation`).
"""

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeAlias

import msgspec
from redis.exceptions import RedisError, ResponseError

from controlplane.datastores import redis
from controlplane.datastores.redis_refusal import refusal
from controlplane.models import Event, Fleet
from controlplane.observability.metrics import PUBLISHES
from controlplane.publishing import epochs, installation, snapshots
from controlplane.publishing.acknowledgements import Acknowledged, acknowledged
from controlplane.publishing.epochs import Seen
from controlplane.publishing.installation import Identity, NotOurRedis
from controlplane.publishing.snapshots import TableVersions
from routing.contract import redis_keys, snapshot_chunks
from routing.contract.decode_errors import DECODE_ERRORS
from routing.contract.table import (
    FleetSnapshot,
    Manifest,
    Version,
    decode_manifest,
    encode,
    implausible,
)
from routing.contract.telemetry import WorkerReport

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
Snapshot: TypeAlias = Manifest | FleetSnapshot
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

    False: Redis is away, or is another installation's. Nothing is lost: :func:`publish_all` stores it when
    Redis is back, or ours.
    """
    ours, wanted = installation.identity(), list(fleet_ids)

    def read() -> list[Snapshot]:
        found: list[Snapshot] = list(snapshots.snapshots_of(wanted))
        return [*found, snapshots.manifest()] if with_manifest else found

    messages = read()
    try:
        if not _store(ours, messages, removed) and (foreign := _foreign(read)):
            # The database was restored, and written to before the conductor has seen that.
            _raise_epoch(ours, Seen(foreign))
    except RedisError as error:
        how = "answers with an error" if refusal(error) else "does not answer"
        logger.warning("not published, Redis %s: %s", how, error)
        PUBLISHES.labels("redis_away").inc()
        return False
    except NotOurRedis as refused:
        logger.error("not published: %s", refused)
        PUBLISHES.labels("refused").inc()
        return False
    PUBLISHES.labels("stored").inc()
    return True


def _store(ours: Identity, messages: Sequence[Snapshot], removed: Collection[str] = ()) -> bool:
    """Whether each was newer than what is there. Raises NotOurRedis; then nothing of it is stored or removed,
    and redis.RedisError."""
    answers = _evaluate(ours, messages)
    if b"unbound" in answers:
        installation.hold(ours)
        answers = _evaluate(ours, messages)
    for answer in answers:
        if isinstance(answer, bytes):
            raise installation.refusal(answer)
    if removed:
        _forget(removed)
    return all(answers)


def _forget(removed: Iterable[str]) -> None:
    redis.client().delete(*(key for name in removed for key in _keys_of(name)))


def _keys_of(name: str) -> tuple[str, str]:
    return redis_keys.fleet_key(name), redis_keys.fleet_acks_key(name)


def _evaluate(ours: Identity, messages: Sequence[Snapshot]) -> list[int | bytes]:
    """For each message whether it was stored, or, in bytes, why it must not be."""
    pipeline = redis.client().pipeline(transaction=False)
    for message in messages:
        key, announcement = _key_and_announcement(message)
        body, chunks = _body_and_chunks(message)
        pipeline.eval(
            redis_keys.STORE_IF_NEWER,
            2,
            key,
            redis_keys.INSTALLATION,
            message.epoch,
            message.version,
            body,
            redis_keys.CHANGES_CHANNEL,
            announcement,
            *ours.arguments,
            *chunks,
        )
    answers: list[int | bytes] = pipeline.execute()
    return answers


def _body_and_chunks(message: Snapshot) -> tuple[bytes, list[str | bytes]]:
    if isinstance(message, Manifest):
        return encode(message), []
    return snapshot_chunks.stored_arguments(message)


def _key_and_announcement(message: Snapshot) -> tuple[str, str]:
    if isinstance(message, Manifest):
        return redis_keys.MANIFEST, MANIFEST_CHANGED
    return redis_keys.fleet_key(message.name), message.name


# --- The reconcile ---

_contents_compared = threading.Event()
"""Set once this process has seen that Redis and database agree in content, not in version alone."""


def compare_again() -> None:
    """The next reconcile compares contents: a worker refuses what Redis holds, whatever its version says."""
    _contents_compared.clear()


class Stored(NamedTuple):
    """What Redis holds under a key."""

    version: Version | None
    """``None``: no control plane wrote it. It counts as missing, and is replaced."""
    text: str
    """The version as it is there."""
    installation: str
    """That wrote it; empty: an older version of the control plane did."""


def publish_all(reports: Collection[WorkerReport] = ()) -> int:
    """Brings Redis to what the database says; how many messages were stored.

    While nothing is missing it costs two queries and one round trip. The first time in a process it
    also compares contents, which finds a database that was replaced by another with the same
    versions. What no control plane can have written is replaced. When Redis holds what this database
    never wrote, or a worker routes from it (``reports``, read before this is called), the epoch is
    raised, so that proxies take the database's table again.

    Raises redis.RedisError while Redis is away, and NotOurRedis.
    """
    state = installation.settled()
    ours = installation.identity(state)
    wanted = snapshots.current_versions(state)
    thorough = not _contents_compared.is_set()
    stored = _stored(wanted)
    if _ahead(stored, reports, wanted, ours):
        # Somebody may have written and published between the two reads.
        wanted = snapshots.current_versions()
        if newest := _ahead(stored, reports, wanted, ours):
            return _raise_epoch(ours, newest)
    missing = [key for key, version in _wanted_keys(wanted).items() if _is_older(stored.get(key), version)]
    if mistakes := {key: each.text for key, each in stored.items() if each.version is None}:
        installation.hold(ours)
        redis.client().delete(*mistakes)
    if missing:
        _store(ours, _messages(missing))
    if redis_keys.MANIFEST in missing:
        _forget_leftovers()
    _tell(mistakes)
    if thorough:
        foreign = _foreign(_all_messages)
        if foreign:
            return len(missing) + _raise_epoch(ours, Seen(foreign))
        _contents_compared.set()
    return len(missing)


def _raise_epoch(ours: Identity, seen: Seen) -> int:
    installation.hold(ours)  # else the epoch would grow each second while Redis is another's
    epochs.raise_beyond(seen)
    messages = _all_messages()
    _store(installation.identity(), messages)
    _forget_leftovers()
    return len(messages)


def _forget_leftovers() -> None:
    """Of fleets that were removed, when whoever did it ended before it published. No proxy reads them."""
    prefix = redis_keys.fleet_key("")
    client = redis.client()
    stored = {key.decode().removeprefix(prefix) for key in client.scan_iter(f"{prefix}*", count=1000)}
    if leftovers := stored - set(Fleet.objects.values_list("name", flat=True)):
        _forget(leftovers)


def _wanted_keys(wanted: TableVersions) -> dict[str, Version]:
    """Snapshots first, the manifest last."""
    keys = {redis_keys.fleet_key(name): wanted.fleet_version(name) for name in wanted.fleets}
    return {**keys, redis_keys.MANIFEST: wanted.manifest_version}


def _stored(wanted: TableVersions) -> dict[str, Stored]:
    keys = list(_wanted_keys(wanted))
    pipeline = redis.client().pipeline(transaction=False)
    for key in keys:
        pipeline.hmget(key, "epoch", "version", "installation")
    answers: list[list[bytes | None] | ResponseError] = pipeline.execute(raise_on_error=False)
    return {
        key: _read(answer)
        for key, answer in zip(keys, answers, strict=True)
        if isinstance(answer, ResponseError) or answer[0] is not None or answer[1] is not None
    }


def _read(answer: list[bytes | None] | ResponseError) -> Stored:
    """``answer``: epoch, version and installation, or that the key is of another type."""
    if isinstance(answer, ResponseError):
        return Stored(None, "no hash", "")
    epoch, number, name = ((each or b"").decode("utf-8", "replace") for each in answer)
    text = f"{epoch}:{number}"[:60]
    try:
        version = Version.parse(f"{epoch}:{number}")
    except ValueError:
        return Stored(None, text, name)
    return Stored(None if implausible(version) else version, text, name)


def _tell(mistakes: dict[str, str]) -> None:
    """``mistakes``: key → the version that was there."""
    for key, text in mistakes.items():
        words = f"Redis held {key} at version {text}, which no control plane writes. It was replaced."
        logger.error("%s", words)
        Event.objects.create(kind=Event.Kind.SYSTEM, text=words, actor="publisher")


def _ahead(
    stored: dict[str, Stored], reports: Collection[WorkerReport], wanted: TableVersions, ours: Identity
) -> Seen | None:
    """The newest version in Redis, or in use at a worker, that the database never wrote."""
    keys = _wanted_keys(wanted)
    found = [
        Seen(each.version, each.installation if each.installation != ours.id else None)
        for key, each in stored.items()
        if each.version and key in keys and (each.version > keys[key] or each.installation != ours.id)
    ]
    found += [Seen(version) for version in _reported_ahead(reports, wanted, ours)]
    return max(found, key=lambda seen: seen.version, default=None)


def _reported_ahead(
    reports: Collection[WorkerReport], wanted: TableVersions, ours: Identity
) -> Iterator[Version]:
    """Redis may have been emptied after the database was restored: then only proxies know the later table."""
    texts = {name: str(wanted.fleet_version(name)) for name in wanted.fleets}
    manifest = str(wanted.manifest_version)
    known = {"", ours.id, *ours.succeeded}
    for report in reports:
        if report.installation not in known:
            continue
        if report.manifest != manifest:
            yield from _later(report.manifest, wanted.manifest_version)
        for fleet in report.fleets:
            if fleet.name in texts and fleet.applied != texts[fleet.name]:
                yield from _later(fleet.applied, wanted.fleet_version(fleet.name))


def _later(text: str, wanted: Version) -> Iterator[Version]:
    with suppress(ValueError):
        if (version := Version.parse(text)) > wanted and not implausible(version):
            yield version


def _is_older(stored: Stored | None, wanted: Version) -> bool:
    return stored is None or stored.version is None or stored.version < wanted


def _messages(keys: Sequence[str]) -> list[Snapshot]:
    names = {key.removeprefix(redis_keys.fleet_key("")) for key in keys}
    ids = Fleet.objects.filter(name__in=names).values_list("pk", flat=True)
    found: list[Snapshot] = list(snapshots.snapshots_of(ids))
    if redis_keys.MANIFEST in keys:
        found.append(snapshots.manifest())
    return found


def _all_messages() -> list[Snapshot]:
    return [*snapshots.snapshots_of(), snapshots.manifest()]


def _foreign(read: Callable[[], list[Snapshot]]) -> Version | None:
    """The version of a message in Redis that carries our version and another content. ``read``: ours.

    Looked at twice, because a write between reading a version and its content looks like that too.
    """
    return _differing(read()) and _differing(read())


def _differing(ours: list[Snapshot]) -> Version | None:
    pipeline = redis.client().pipeline(transaction=False)
    for message in ours:
        pipeline.hgetall(_key_and_announcement(message)[0])
    for message, fields in zip(ours, pipeline.execute(), strict=True):
        stored = (fields.get(b"epoch"), fields.get(b"version"))
        same_version = stored == (str(message.epoch).encode(), str(message.version).encode())
        if same_version and not _same_content(message, fields):
            return Version(message.epoch, message.version)
    return None


def _same_content(message: Snapshot, fields: dict[bytes, bytes]) -> bool:
    try:
        if isinstance(message, FleetSnapshot):
            return snapshot_chunks.decode_fields(fields) == message
        stored = decode_manifest(fields.get(b"body", b""))
    except DECODE_ERRORS:
        return False
    # The versions of fleets in it are those of the moment when it was made.
    return stored.fleets.keys() == message.fleets.keys() and _nameless(stored) == _nameless(message)


def _nameless(message: Manifest) -> Manifest:
    return msgspec.structs.replace(message, fleets={})
