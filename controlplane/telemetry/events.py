"""What the conductor tells as events in the database, which is also the memory of what has been told."""

from django.db.models import Max

from controlplane.models import Event, Fleet, Replica
from controlplane.services.writing import writing
from controlplane.telemetry.by_hand import ByHandNews
from controlplane.telemetry.ejections import EjectionState, News
from controlplane.telemetry.overloads import OverloadNews

ACTOR = "conductor"
EJECTED = "ejected"
BACK = "ready"
REFUSING = "refusing"


def told_so_far() -> EjectionState:
    """What a new leader must not tell again: replicas whose last such event says ejected.

    Raises django.db.Error.
    """
    ejections = Event.objects.filter(kind=Event.Kind.EJECTION, replica__isnull=False)
    newest = ejections.order_by().values("replica").annotate(newest=Max("id")).values("newest")
    still = Event.objects.filter(id__in=newest, state=EJECTED).values_list("replica__uid", flat=True)
    return EjectionState(told={str(uid) for uid in still})


def overloads_told() -> set[str]:
    """Names of fleets whose last such event says that they refuse requests. Raises django.db.Error."""
    told = Event.objects.filter(kind=Event.Kind.LIMIT, state__in=[REFUSING, BACK], fleet__isnull=False)
    newest = told.order_by().values("fleet").annotate(newest=Max("id")).values("newest")
    return set(Event.objects.filter(id__in=newest, state=REFUSING).values_list("fleet__name", flat=True))


def record(item: News) -> None:
    """Write one event. A replica deleted meanwhile has no more events. Raises django.db.Error."""
    replica = Replica.objects.select_related("fleet").filter(uid=item.uid).first()
    if replica is None:
        return
    state = EJECTED if item.ejected else BACK
    with writing(ACTOR) as write:
        write.event(Event.Kind.EJECTION, item.text, fleet=replica.fleet, replica=replica, state=state)


def record_by_hand(item: ByHandNews) -> None:
    """Write one event. A replica deleted meanwhile has no more events. Raises django.db.Error."""
    _, fleet, name = item.override
    replica = Replica.objects.select_related("fleet").filter(fleet__name=fleet, name=name).first()
    if replica is None:
        return
    with writing(ACTOR) as write:
        state = "draining" if item.began else "active"
        write.event(Event.Kind.ADMIN, item.text, fleet=replica.fleet, replica=replica, state=state)


def record_overload(item: OverloadNews) -> None:
    """Write one event. A fleet deleted meanwhile has no more events. Raises django.db.Error."""
    fleet = Fleet.objects.filter(name=item.fleet).first()
    if fleet is None:
        return
    with writing(ACTOR) as write:
        write.event(Event.Kind.LIMIT, item.text, fleet=fleet, state=REFUSING if item.begins else BACK)


def record_limit(text: str) -> None:
    """Write one event of a client key. Raises django.db.Error."""
    with writing(ACTOR) as write:
        write.event(Event.Kind.LIMIT, text)


def record_shortage(text: str) -> None:
    """Write one event of a proxy worker. Raises django.db.Error."""
    with writing(ACTOR) as write:
        write.event(Event.Kind.SYSTEM, text)
