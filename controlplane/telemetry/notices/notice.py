"""Notice: one line for the event log; and notifier: the contract of what finds them, one per kind."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from controlplane.models import Event
from controlplane.telemetry.db_snapshot import FleetRow, KeyRow
from controlplane.telemetry.merged_numbers import Merged
from controlplane.telemetry.notices.handover import LeaderHandover

Key = TypeVar("Key", bound=Hashable)
"""Names an episode among those of its notifier."""


@dataclass(frozen=True, slots=True)
class FleetSubject:
    name: str


@dataclass(frozen=True, slots=True)
class ReplicaSubject:
    uid: str


@dataclass(frozen=True, slots=True)
class ReplicaNameSubject:
    fleet: str
    name: str


Subject = FleetSubject | ReplicaSubject | ReplicaNameSubject


@dataclass(frozen=True, slots=True)
class Notice(Generic[Key]):
    """The begin or the end of an episode: an ejection, a time of overload, a drain …"""

    key: Key
    begins: bool
    """False: it is over."""
    kind: Event.Kind
    text: str
    subject: Subject | None = None
    """Whose timeline it stands in; ``None``: nobody's."""
    state: str = ""
    """The event's state word."""
    detail: str = ""
    """What the notifier remembers of the episode, besides its key."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What one tick of the conductor sees."""

    merged: Merged
    keys: Sequence[KeyRow] = ()
    """Of the client keys, as last read."""
    fleets: Sequence[FleetRow] = ()
    """As last read."""
    defects: Mapping[str, str] = field(default_factory=dict)
    """Accelerators whose device is likely broken by what its exporter says, and why."""


class Notifier(Protocol[Key]):
    """One kind of notices. Explicit state; ``now`` (monotonic seconds) is an argument. Pure, but for
    :meth:`restore` and :meth:`save`, which most need not."""

    def restore(self, handover: LeaderHandover) -> None:
        """Called first: take over the notices published by the previous leader.

        Raises django.db.Error, redis.RedisError.
        """

    def pending(self, observed: Observed, now: float) -> list[Notice[Key]]:
        """What is to be written down. Called exactly once a tick, for it also takes note of what goes on.

        Only notices that are confirmed are not published again.
        """

    def confirm(self, notice: Notice[Key], now: float) -> None:
        """The notice has been written down, or its subject is gone."""

    def save(self, handover: LeaderHandover) -> None:
        """Keep in Redis what the next leader cannot read from events. Raises redis.RedisError."""
