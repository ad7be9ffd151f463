"""Status of a source: its state in words, written when they change, and on the timeline once they last."""

from datetime import datetime
from typing import NamedTuple

from controlplane.discovery import changes
from controlplane.discovery.changes import Follower
from controlplane.models import DiscoverySource, DiscoverySourceStatus, Event, SourceState
from controlplane.services.unit_of_work import unit_of_work

TOLD_AFTER_S = 10.0
"""A shorter trouble of a source is not on the timeline."""


class Condition(NamedTuple):
    """How a source is, without times."""

    error: str
    """Why it does not answer; empty: it does."""
    note: str
    """What the list says of itself."""
    listed: int | None
    own: int
    """Replicas that it has registered."""
    frozen: bool
    left_alone: int
    refused: tuple[str, str] | None
    """Name of one that could not be registered or changed, and why."""

    @property
    def state(self) -> SourceState:
        if self.error or (self.note and not self.own):
            return SourceState.FAILING
        return SourceState.FROZEN if self.frozen else SourceState.FOLLOWED

    @property
    def words(self) -> str:
        if self.error:
            stay = f"; its {_replicas(self.own)} as they are" if self.own else ""
            return f"{self.error}{stay}"
        said = [self.note] if self.note else []
        if self.frozen:
            what = "lists nothing" if not self.listed else f"lists {self.listed} only"
            said.append(
                f"it {what}: the others of its {self.own} replicas stay until probes too find them gone, or "
                "it says that they go"
            )
        if self.refused is not None:
            name, why = self.refused
            said.append(f"{name} is left out: {why}")
        if self.left_alone:
            said.append(f"{self.left_alone} that it lists have names of others, and are left alone")
        return "; ".join(said)


def _replicas(number: int) -> str:
    return "replica stays" if number == 1 else f"{number} replicas stay"


class StatusWriter:
    def __init__(self, source: DiscoverySource) -> None:
        self._source = source
        self._row: DiscoverySourceStatus | None = None
        self._told: SourceState | None = None
        """The last state that the timeline knows of; ``None``: as the row says."""

    def write(self, follower: Follower, condition: Condition, now: datetime) -> None:
        row = self._row = self._row or DiscoverySourceStatus.objects.get(source=self._source)
        if self._told is None:
            self._told = SourceState(row.state)
        state, words = condition.state, condition.words[:500]
        if (row.state, row.reason) != (state, words):
            self._save(follower, row, condition, words, now)
        troubled = state in (SourceState.FAILING, SourceState.FROZEN)
        lasts = (now - row.since).total_seconds() >= TOLD_AFTER_S
        if troubled and lasts and self._told != state:
            self._tell(follower, f"source {self._source.name}: {words}", state)
        elif not troubled and self._told in (SourceState.FAILING, SourceState.FROZEN):
            self._tell(follower, f"source {self._source.name} is followed again", state)
        elif not troubled:
            self._told = state

    def _save(
        self,
        follower: Follower,
        row: DiscoverySourceStatus,
        condition: Condition,
        words: str,
        now: datetime,
    ) -> None:
        state = condition.state
        if row.state != state:
            row.since = now
        if condition.own and state in (SourceState.FAILING, SourceState.FROZEN):
            row.frozen_since = row.frozen_since or now
        else:
            row.frozen_since = None
        row.state, row.reason = state, words
        with unit_of_work(changes.actor(self._source)):
            changes.check(follower)
            row.save(update_fields=["state", "reason", "since", "frozen_since"])

    def _tell(self, follower: Follower, text: str, state: SourceState) -> None:
        with unit_of_work(changes.actor(self._source)) as write:
            changes.check(follower)
            write.event(Event.Kind.SYSTEM, text, fleet=self._source.fleet, state=state)
        self._told = state
