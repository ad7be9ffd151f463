"""Drains of a whole host, or of an accelerator: all its replicas at once, of whatever fleet.

A replica is on a host if its URL names that host, or if it runs on one of the host's accelerators: their
names begin with the host's.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from django.db.models import Q

from controlplane.models import Replica
from controlplane.services import dropping, replicas
from controlplane.services.changes import Change, change_of
from controlplane.services.errors import NotFound
from controlplane.services.lookup import accelerator_named, fleet_named, replica_named
from controlplane.services.unit_of_work import unit_of_work

EVERY = Q()
_ACTIVE, _DRAINING = Replica.AdminStateChoice.ACTIVE, Replica.AdminStateChoice.DRAINING


@dataclass(frozen=True, slots=True)
class Drained:
    """What a drain has done."""

    replicas: list[Replica]
    """All that are there, also those that were left as they are; by fleet and name."""
    changes: list[Change]
    """Of each fleet of which some were changed."""


def on_host(host: str, visible: Q = EVERY) -> list[Replica]:
    """By fleet and name. ``visible``: only of these. Raises NotFound where there is none."""
    placed = Q(accelerators__name__startswith=f"{host}/")
    named = [
        pk
        for pk, url in Replica.objects.filter(url__icontains=host).values_list("pk", "url")
        if urlsplit(url).hostname == host.lower()
    ]
    found = list(_ordered((placed | Q(pk__in=named)) & visible))
    if not found:
        raise NotFound(f"No replica is on host {host}, by its URL or by an accelerator of that host.")
    return found


def on_accelerator(name: str, visible: Q = EVERY) -> list[Replica]:
    """As :func:`on_host`. Raises NotFound also where there is no such device."""
    found = list(_ordered(Q(accelerators=accelerator_named(name)) & visible))
    if not found:
        raise NotFound(f"No replica runs on accelerator {name}.")
    return found


def drain(found: Iterable[Replica], actor: str, *, move: bool, confirm: str = "") -> Drained:
    """Those that are active drain; with ``move`` the streams of all that are drained are moved. Those in
    maintenance stay so. Raises NeedsConfirmation without ``confirm``, the token for taking out most of what
    serves."""
    return _put(
        found, actor, {_ACTIVE: {"admin_state": _DRAINING, "move": move}, _DRAINING: {"move": move}}, confirm
    )


def undo(found: Iterable[Replica], actor: str) -> Drained:
    """Those that are drained are active again."""
    return _put(found, actor, {_DRAINING: {"admin_state": _ACTIVE}})


def _put(
    found: Iterable[Replica], actor: str, changes: dict[str, dict[str, object]], confirm: str = ""
) -> Drained:
    """``changes``: by the admin state that a replica is in."""
    with unit_of_work(actor, confirm) as write, dropping.confirmed(confirm):
        rows: list[Replica] = []
        lines: dict[str, list[str]] = {}
        for one in found:
            fleet = fleet_named(one.fleet.name, lock=True)
            row = replica_named(fleet, one.name, lock=True)
            rows.append(row)
            if wanted := changes.get(row.admin_state):
                lines.setdefault(fleet.name, []).extend(replicas.put(write, fleet, row, wanted))
        done = [change_of(fleet_named(name), changed, write) for name, changed in lines.items()]
        return Drained(rows, done)


def _ordered(which: Q) -> Iterable[Replica]:
    return Replica.objects.filter(which).select_related("fleet").order_by("fleet__name", "name").distinct()
