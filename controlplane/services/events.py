"""Lines of the timeline that no other verb writes: ejections, system notices."""

from controlplane.models import Event, Fleet, Replica
from controlplane.services.unit_of_work import unit_of_work


def record(
    kind: str,
    text: str,
    *,
    fleet: Fleet | None = None,
    replica: Replica | None = None,
    state: str = "",
    actor: str = "",
) -> Event:
    """``kind`` is one of :class:`Event.Kind`; at most 400 characters of ``text`` are kept."""
    with unit_of_work(actor) as write:
        return write.event(Event.Kind(kind), text, fleet=fleet, replica=replica, state=state)
