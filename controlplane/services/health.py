"""Health transitions: a replica's health row is written when its probed state changes, and only then.

It never writes the columns that operators edit: health has a table of its own.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, NamedTuple

from django.utils import timezone

from controlplane.models import Event, Replica, ReplicaHealth
from controlplane.services.unit_of_work import UnitOfWork, unit_of_work
from routing.contract.flap_damping import FlapPenalty

PROBES = "probes"


class Transition(NamedTuple):
    replica_id: int
    expected_state: str
    """The state that the probe's result was judged from."""
    new_state: str
    reason: str
    """In plain words, at most 300 characters are kept."""
    has_passed: bool
    starting: bool = True
    """:attr:`ReplicaHealth.starting` of the new state."""
    startup_s: float | None = None
    """How long its start took, where this is known; else what was known stays."""
    flaps: FlapPenalty | None = None
    """Set: it was ready and no longer is; this is its penalty now, by the wall clock."""


def record_transition(
    replica_id: int,
    expected_state: str,
    new_state: str,
    reason: str,
    has_passed: bool,
    *,
    starting: bool = True,
    startup_s: float | None = None,
) -> bool:
    """False: the replica is gone, or its state is no longer ``expected_state`` (somebody was first)."""
    transition = Transition(replica_id, expected_state, new_state, reason, has_passed, starting, startup_s)
    return record_transitions([transition])[0]


def record_transitions(transitions: Iterable[Transition]) -> list[bool]:
    """A batch in one transaction, published once. True for each that was written."""
    transitions = list(transitions)
    with unit_of_work(PROBES) as write:
        written = [_compare_and_set(transition) for transition in transitions]
        _write_events(
            write, [one for one, was_written in zip(transitions, written, strict=True) if was_written]
        )
    return written


def _compare_and_set(transition: Transition) -> bool:
    rows = ReplicaHealth.objects.filter(replica_id=transition.replica_id, state=transition.expected_state)
    measured: dict[str, Any] = {} if transition.startup_s is None else {"startup_s": transition.startup_s}
    if transition.flaps is not None:
        at = datetime.fromtimestamp(transition.flaps.at_s, UTC)
        measured |= {"flap_penalty": transition.flaps.value, "lost_at": at}
    return bool(
        rows.update(
            state=transition.new_state,
            reason=transition.reason[:300],
            has_passed=transition.has_passed,
            since=timezone.now(),
            starting=transition.starting,
            **measured,
        )
    )


def _write_events(write: UnitOfWork, transitions: list[Transition]) -> None:
    replicas = Replica.objects.select_related("fleet").in_bulk([one.replica_id for one in transitions])
    for one in transitions:
        replica = replicas[one.replica_id]
        text = f"{replica.name} is {one.new_state}, was {one.expected_state}: {one.reason}"
        write.event(Event.Kind.HEALTH, text, fleet=replica.fleet, replica=replica, state=one.new_state)
    write.bump_tables(*{replica.fleet_id for replica in replicas.values()})
