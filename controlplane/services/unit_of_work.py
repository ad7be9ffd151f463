"""Unit of work: one transaction, its audit entries and events, and what is published when it commits.

Every verb of :mod:`controlplane.services` opens one with :func:`unit_of_work`. A verb that calls others (a
fleet file being applied) opens one around them: inner ones join it, so that all of it is committed,
and published, once.
"""

import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from django.db import connection, transaction
from django.db.models import F
from django.utils import timezone

from controlplane.datastores.write_turns import write_turn
from controlplane.models import AuditEntry, Event, Fleet, Replica, TableState
from controlplane.publishing.group_publishing import group_publisher
from controlplane.services import device_memory, fallbacks, shared_hosts, table_size
from controlplane.services.errors import Conflict, PreconditionFailed
from controlplane.services.fleet_names import FleetNames
from controlplane.services.signals import replicas_unprobed


class UnitOfWork:
    """What one transaction changes. ``published`` is None until it has committed; ``id`` leads from its
    events to its audit entries."""

    def __init__(self, actor: str, confirm: str = "") -> None:
        self.actor = actor
        self.confirm = confirm
        """Tokens that came with the write (:mod:`controlplane.services.confirmation`)."""
        self.hosts = shared_hosts.HostChanges()
        self.fallbacks = fallbacks.FallbackChanges()
        self.id = uuid.uuid4().hex
        self.published: bool | None = None
        self._fleets: set[int] = set()
        self._removed: set[str] = set()
        self._unprobed: list[str] = []
        self._manifest = False
        self._devices: dict[str, str] = {}
        self._places: device_memory.Places = {}
        self._grows = False
        self._names: FleetNames | None = None

    @property
    def fleet_names(self) -> FleetNames:
        """Those that are there now, what this has written included."""
        if self._names is None:
            self._names = FleetNames.read()
        return self._names

    def audit(self, verb: str, target: str, before: Any = None, after: Any = None) -> None:
        AuditEntry.objects.create(
            actor=self.actor, verb=verb, target=target, before=before, after=after, write=self.id
        )

    def event(
        self,
        kind: Event.Kind,
        text: str,
        *,
        fleet: Fleet | str | None = None,
        replica: Replica | str | None = None,
        state: str = "",
        revision: int | None = None,
    ) -> Event:
        """``fleet`` and ``replica`` as a name: it is gone. At most 400 characters of ``text`` are kept."""
        return Event.objects.create(
            kind=kind,
            text=text[:400],
            fleet=fleet if isinstance(fleet, Fleet) else None,
            fleet_name=_name(fleet),
            replica=replica if isinstance(replica, Replica) else None,
            replica_name=_name(replica),
            state=state,
            revision=revision,
            actor=self.actor,
            write=self.id,
        )

    def save_fleet(self, fleet: Fleet, **fields: Any) -> None:
        """Compare-and-set of what an operator edits; both versions grow. Raises Conflict on a race."""
        changed = Fleet.objects.filter(pk=fleet.pk, edit_version=fleet.edit_version).update(
            **fields,
            edit_version=fleet.edit_version + 1,
            table_version=F("table_version") + 1,
            updated_at=timezone.now(),
        )
        if not changed:
            raise edit_conflict(f"fleet {fleet.name}")
        self._fleets.add(fleet.pk)
        fleet.refresh_from_db()
        if self._names is not None:
            self._names.put(fleet)

    def save_replica(self, replica: Replica, **fields: Any) -> None:
        """Compare-and-set; the fleet's table version grows. Raises Conflict on a race."""
        changed = Replica.objects.filter(pk=replica.pk, edit_version=replica.edit_version).update(
            **fields, edit_version=replica.edit_version + 1, updated_at=timezone.now()
        )
        if not changed:
            raise edit_conflict(f"replica {replica}")
        self.bump_tables(replica.fleet_id)
        replica.refresh_from_db()

    def bump_tables(self, *fleet_ids: int) -> None:
        """The snapshots of these fleets change, though nothing that an operator edits on the fleet."""
        Fleet.objects.filter(pk__in=fleet_ids).update(table_version=F("table_version") + 1)
        self._fleets.update(fleet_ids)

    def fleet_added(self, fleet: Fleet) -> None:
        self._fleets.add(fleet.pk)
        if self._names is not None:
            self._names.put(fleet)
        self.manifest_changed()

    def fleet_removed(self, fleet: Fleet) -> None:
        self._fleets.discard(fleet.pk)
        self._removed.add(fleet.name)
        if self._names is not None:
            self._names.remove(fleet.name)
        self.manifest_changed()

    def manifest_changed(self) -> None:
        """Which fleets there are, or how requests find one, changes."""
        if not self._manifest:
            TableState.objects.filter(pk=table_state().pk).update(manifest_version=F("manifest_version") + 1)
        self._manifest = True

    def check_memory(self, devices: Iterable[str], at: str = "", *, of: Replica | None = None) -> None:
        """What is held on these accelerators is checked when all is written. ``at``: JSON pointer to what was
        sent of the replica ``of``, or of the one device."""
        for name in devices:
            self._devices.setdefault(name, "")
            if of is None:
                self._devices[name] = at
        if of is not None:
            self._places[(of.fleet.name, of.name)] = at

    def table_grows(self) -> None:
        """A replica was added: whether there are too many now is looked at when all is written."""
        self._grows = True

    def finish(self) -> None:
        """Raises Conflict: too many replicas, or what is held on accelerators no longer fits; and, of what
        fleets fall back to, Invalid, Conflict and Forbidden. Raises NeedsConfirmation where fleets come to
        share a host that one of them exposes.

        A second time, with nothing written since, it reads nothing: by then a dry run's transaction is marked
        for rollback, and takes no more queries.
        """
        grows, self._grows = self._grows, False
        if grows:
            table_size.refuse_beyond()
        devices, self._devices = self._devices, {}
        if devices:
            device_memory.refuse_misfits(devices, self._places)
        self.fallbacks.refuse()
        if (sharing := self.hosts.sharing()) is not None:
            sharing.refuse_unless(self.confirm)

    def probe_immediately(self, replica: Replica) -> None:
        """Nothing is known of its health: its first probe need not wait for its turn."""
        self._unprobed.append(str(replica.uid))

    def publish(self) -> None:
        if self._fleets or self._manifest:
            self.published = group_publisher.publish(
                self._fleets, with_manifest=self._manifest, removed=self._removed
            )
        if self._unprobed and self.published is not False:
            replicas_unprobed.send(UnitOfWork, uids=self._unprobed)


_current: ContextVar[UnitOfWork | None] = ContextVar("current_writing", default=None)


@contextmanager
def unit_of_work(actor: str, confirm: str = "") -> Iterator[UnitOfWork]:
    """The write in progress, or a new one: committed at the end of the block, then published.

    ``confirm``: tokens for what it does; those of an inner one count for the whole write.
    """
    outer = _current.get()
    if outer is not None:
        outer.confirm = outer.confirm or confirm
        yield outer
        return
    unit_of_work = UnitOfWork(actor, confirm)
    token = _current.set(unit_of_work)
    try:
        with group_publisher.writing(), write_turn() as turn, transaction.atomic():
            transaction.on_commit(turn.end)
            lock_writes()
            yield unit_of_work
            unit_of_work.finish()
            transaction.on_commit(unit_of_work.publish)
    finally:
        _current.reset(token)


def record_event(
    kind: str,
    text: str,
    *,
    fleet: Fleet | None = None,
    replica: Replica | None = None,
    state: str = "",
    actor: str = "",
) -> Event:
    """A line of the timeline that no verb writes. ``kind``: one of :class:`Event.Kind`."""
    with unit_of_work(actor) as write:
        return write.event(Event.Kind(kind), text, fleet=fleet, replica=replica, state=state)


def _name(what: Fleet | Replica | str | None) -> str:
    if what is None or isinstance(what, str):
        return what or ""
    return what.name


WRITE_LOCK = 0x53_57_59_44
"""Key of PostgreSQL's advisory lock; any number that nothing else in the database uses."""


def lock_writes() -> None:
    """Until this transaction ends, every other write waits.

    What must be true across rows (a name or an alias is taken once, one default fleet) is checked by reading
    before writing, which holds only when nobody writes in between. SQLite's transactions begin with its write
    lock (see ``environment.sqlite``); PostgreSQL's do not, and get the same order from here.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [WRITE_LOCK])


def table_state() -> TableState:
    """The one row, made when missing."""
    row = TableState.objects.order_by("pk").first()
    return row if row is not None else TableState.objects.get_or_create(pk=1)[0]


def check_version(what: str, current: int, expected: int | None) -> None:
    """``expected`` comes from If-Match; None: no precondition."""
    if expected is not None and expected != current:
        raise PreconditionFailed(
            f"{what} has changed since you read it: read it again, then repeat your change."
        )


def edit_conflict(what: str) -> Conflict:
    return Conflict(f"{what} was changed by somebody else at the same time: try again.")
