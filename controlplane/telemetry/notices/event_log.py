"""Event log of the conductor: notices as events in the database, also the memory of what was notified."""

from collections.abc import Collection
from typing import Any, Literal

from django.db.models import Max, QuerySet

from controlplane.models import Event, Fleet, Replica
from controlplane.services.unit_of_work import unit_of_work
from controlplane.telemetry.notices.notice import (
    FleetSubject,
    Notice,
    ReplicaNameSubject,
    ReplicaSubject,
    Subject,
)

ACTOR = "conductor"


def with_newest_state(
    kind: Event.Kind, state: str, *, of: Literal["fleet", "replica"], among: Collection[str] = ()
) -> QuerySet[Event]:
    """The newest event of this kind of each fleet or replica, where it has this state.

    ``among``: events with other states do not count; empty: all do. Raises django.db.Error when evaluated.
    """
    events = Event.objects.filter(kind=kind, **{f"{of}__isnull": False})
    if among:
        events = events.filter(state__in=among)
    newest = events.order_by().values(of).annotate(newest=Max("id")).values("newest")
    return Event.objects.filter(id__in=newest, state=state)


def record(notice: Notice[Any]) -> None:
    """Write one event, in a transaction of its own. A fleet or replica deleted meanwhile has no more events.

    Raises django.db.Error.
    """
    fleet, replica = _rows(notice.subject)
    if notice.subject is not None and fleet is None:
        return
    with unit_of_work(ACTOR) as write:
        write.event(notice.kind, notice.text, fleet=fleet, replica=replica, state=notice.state)


def _rows(subject: Subject | None) -> tuple[Fleet | None, Replica | None]:
    replicas = Replica.objects.select_related("fleet")
    match subject:
        case None:
            return None, None
        case FleetSubject(name):
            return Fleet.objects.filter(name=name).first(), None
        case ReplicaSubject(uid):
            replica = replicas.filter(uid=uid).first()
        case ReplicaNameSubject(fleet, name):
            replica = replicas.filter(fleet__name=fleet, name=name).first()
    return (replica.fleet if replica is not None else None), replica
