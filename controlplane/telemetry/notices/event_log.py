"""Event log of the conductor: notices as events in the database, also the memory of what was notified."""

from django.db.models import Max

from controlplane.models import Event, Fleet, Replica
from controlplane.services.unit_of_work import unit_of_work
from controlplane.telemetry.notices.ejections import EjectionNotice, NotifiedEjections
from controlplane.telemetry.notices.manual_drains import ManualDrainNotice
from controlplane.telemetry.notices.overloads import OverloadNotice

ACTOR = "conductor"
EJECTED = "ejected"
BACK = "ready"
REFUSING = "refusing"


def notified_ejections() -> NotifiedEjections:
    """What a new leader must not tell again: replicas whose last such event says ejected.

    Raises django.db.Error.
    """
    ejections = Event.objects.filter(kind=Event.Kind.EJECTION, replica__isnull=False)
    newest = ejections.order_by().values("replica").annotate(newest=Max("id")).values("newest")
    still = Event.objects.filter(id__in=newest, state=EJECTED).values_list("replica__uid", flat=True)
    return NotifiedEjections(notified={str(uid) for uid in still})


def notified_overloads() -> set[str]:
    """Names of fleets whose last such event says that they refuse requests. Raises django.db.Error."""
    notified = Event.objects.filter(kind=Event.Kind.LIMIT, state__in=[REFUSING, BACK], fleet__isnull=False)
    newest = notified.order_by().values("fleet").annotate(newest=Max("id")).values("newest")
    return set(Event.objects.filter(id__in=newest, state=REFUSING).values_list("fleet__name", flat=True))


def record_ejection(item: EjectionNotice) -> None:
    """Write one event. A replica deleted meanwhile has no more events. Raises django.db.Error."""
    replica = Replica.objects.select_related("fleet").filter(uid=item.uid).first()
    if replica is None:
        return
    state = EJECTED if item.ejected else BACK
    with unit_of_work(ACTOR) as write:
        write.event(Event.Kind.EJECTION, item.text, fleet=replica.fleet, replica=replica, state=state)


def record_manual_drain(item: ManualDrainNotice) -> None:
    """Write one event. A replica deleted meanwhile has no more events. Raises django.db.Error."""
    _, fleet, name = item.override
    replica = Replica.objects.select_related("fleet").filter(fleet__name=fleet, name=name).first()
    if replica is None:
        return
    with unit_of_work(ACTOR) as write:
        state = "draining" if item.began else "active"
        write.event(Event.Kind.ADMIN, item.text, fleet=replica.fleet, replica=replica, state=state)


def record_overload(item: OverloadNotice) -> None:
    """Write one event. A fleet deleted meanwhile has no more events. Raises django.db.Error."""
    fleet = Fleet.objects.filter(name=item.fleet).first()
    if fleet is None:
        return
    with unit_of_work(ACTOR) as write:
        write.event(Event.Kind.LIMIT, item.text, fleet=fleet, state=REFUSING if item.begins else BACK)


def record_key_limit(text: str) -> None:
    """Write one event of a client key. Raises django.db.Error."""
    with unit_of_work(ACTOR) as write:
        write.event(Event.Kind.LIMIT, text)


def record_shortage(text: str) -> None:
    """Write one event of a proxy worker. Raises django.db.Error."""
    with unit_of_work(ACTOR) as write:
        write.event(Event.Kind.SYSTEM, text)
