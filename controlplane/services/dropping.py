"""Large drops: a write that takes all or most of what serves out at once is confirmed at the write.

What serves are replicas that operators let take requests: active, with a weight. A write that may take many
of them out counts before and after. Its token (:mod:`controlplane.services.confirmation`) stands for exactly
this loss and what is left. Deleting one named thing needs none of this: the name is the confirmation.

Who may see some fleets only (:mod:`controlplane.access.viewer`) writes to these: of theirs alone it must be
most, so that no number tells of others. Among fewer, most is reached sooner: the guard only gets stricter.
"""

from collections import Counter
from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from django.db.models import F, FloatField, QuerySet, Value
from django.db.models.functions import Coalesce

from controlplane.access import viewer
from controlplane.models import Replica
from controlplane.services.confirmation import Consequence, named


class ServingReplica(NamedTuple):
    """One replica that takes requests. At another URL it is another instance, which has not been probed."""

    fleet: str
    replica: str
    url: str


@dataclass(frozen=True)
class Drop(Consequence):
    """What a write takes out."""

    salt = "switchyard.dropping"
    lost: list[ServingReplica]
    before: int
    """Replicas that served."""
    fleets: list[str]
    """Fleets of which nothing that served is left."""
    left: dict[str, int]
    """Fleet that loses some → how many of its replicas that served are left."""
    by: str = ""
    """What does it, where that is not seen from the loss."""

    @property
    def words(self) -> str:
        names = named([f"{one.fleet}/{one.replica}" for one in self.lost])
        text = f"{len(self.lost)} of {self.before} replicas that take requests go out at once: {names}."
        if self.fleets:
            word = "fleet" if len(self.fleets) == 1 else "fleets"
            text += f" Nothing that serves now is left of {word} {named(self.fleets)}."
        return text

    @property
    def shown(self) -> object:
        return [self.lost, self.fleets, sorted(self.left.items()), self.by]


def serving(replicas: QuerySet[Replica] | None = None) -> frozenset[ServingReplica]:
    """One query. ``replicas``: of a historical model, when a backup of an older schema is restored."""
    weight = Coalesce(F("weight"), F("hardware__weight"), Value(1.0), output_field=FloatField())
    every = Replica.objects.all() if replicas is None else replicas
    rows = every.filter(admin_state=Replica.AdminStateChoice.ACTIVE)
    taking = rows.annotate(taken_weight=weight).filter(taken_weight__gt=0)
    return frozenset(ServingReplica(*row) for row in taking.values_list("fleet__name", "name", "url"))


def counted(replicas: frozenset[ServingReplica], losing: Container[str]) -> frozenset[ServingReplica]:
    """Of these, those in fleets that the viewer may see. A fleet that loses some counts whoever asks."""
    seen = viewer.seen_fleets()
    if seen is None:
        return replicas
    return frozenset(one for one in replicas if one.fleet in seen or one.fleet in losing)


def drop_between(before: frozenset[ServingReplica], after: frozenset[ServingReplica]) -> Drop | None:
    """``None``: at most half of all replicas, of each fleet that loses any, and of all fleets go."""
    lost = before - after
    had, kept = Counter(one.fleet for one in before), Counter(one.fleet for one in before & after)
    fleets = sorted(name for name in had if not kept[name])
    most_of_a_fleet = any(2 * kept[one.fleet] < had[one.fleet] for one in lost)
    if not (most_of_a_fleet or 2 * len(lost) > len(before) or 2 * len(fleets) > len(had)):
        return None
    left = {one.fleet: kept[one.fleet] for one in lost}
    return Drop(sorted(lost), len(before), fleets, left)


@contextmanager
def confirmed(token: str, replicas: QuerySet[Replica] | None = None) -> Iterator[None]:
    """Inside a unit of work, around what it writes. Raises NeedsConfirmation when that drops most of what
    serves and ``token`` is not that of this loss. ``replicas``: see :func:`serving`."""
    before = serving(replicas)
    yield
    after = serving(replicas)
    losing = {one.fleet for one in before - after}
    drop = drop_between(counted(before, losing), counted(after, losing))
    if drop is not None:
        drop.refuse_unless(token)
