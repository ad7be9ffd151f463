"""Snapshot checks: values of a fleet's snapshot that cannot be routed from."""

from collections.abc import Iterator
from math import inf

from routing.contract.table import FleetSnapshot, ReplicaSpec


def check_limits(snapshot: FleetSnapshot) -> None:
    """Raise ValueError, in words, for values that cannot be routed from."""
    for _ in checked_limits(snapshot):
        pass


def checked_limits(snapshot: FleetSnapshot) -> Iterator[ReplicaSpec]:
    """As :func:`check_limits`, one replica after the other."""
    _check_limit(f"fleet {snapshot.name}", snapshot.policy.max_concurrency)
    seen: set[str] = set()
    for spec in snapshot.replicas:
        if spec.max_concurrency is not None:
            _check_limit(f"replica {spec.name}", spec.max_concurrency)
        if not 0 <= spec.weight < inf:
            raise ValueError(f"weight of replica {spec.name} must be 0 or more, not {spec.weight!r}")
        if spec.uid in seen:
            raise ValueError(f"two replicas of fleet {snapshot.name} have the uid {spec.uid}")
        seen.add(spec.uid)
        yield spec


def _check_limit(where: str, limit: int | None) -> None:
    if limit is not None and limit < 1:
        raise ValueError(f"max_concurrency of {where} must be at least 1, not {limit}")
