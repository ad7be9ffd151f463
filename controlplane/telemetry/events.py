"""What the conductor tells as events in the database, which is also the memory of the ejections told."""

from django.db.models import Max

from controlplane.models import Event, Replica
from controlplane.services.writing import writing
from controlplane.telemetry.ejections import EjectionState, News

ACTOR = "conductor"
EJECTED = "ejected"
BACK = "ready"


def told_so_far() -> EjectionState:
    """What a new leader must not tell again: replicas whose last such event says ejected.

    Raises django.db.Error.
    """
    ejections = Event.objects.filter(kind=Event.Kind.EJECTION, replica__isnull=False)
    newest = ejections.order_by().values("replica").annotate(newest=Max("id")).values("newest")
    still = Event.objects.filter(id__in=newest, state=EJECTED).values_list("replica__uid", flat=True)
    return EjectionState(told={str(uid) for uid in still})


def record(item: News) -> None:
    """Write one event. A replica deleted meanwhile has no more events. Raises django.db.Error."""
    replica = Replica.objects.select_related("fleet").filter(uid=item.uid).first()
    if replica is None:
        return
    state = EJECTED if item.ejected else BACK
    with writing(ACTOR) as write:
        write.event(Event.Kind.EJECTION, item.text, fleet=replica.fleet, replica=replica, state=state)


def record_shortage(text: str) -> None:
    """Write one event of a proxy worker. Raises django.db.Error."""
    with writing(ACTOR) as write:
        write.event(Event.Kind.SYSTEM, text)
