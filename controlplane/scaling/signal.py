"""Scaling signal of one fleet: desired replicas, and why. Pure: one call a second.

Up at once, because a replica takes its time to start; down only to the most that was desired within
``scale_down_after_s``. Where it cannot be told, that is said, and no number is made up.
"""

from collections import deque
from collections.abc import Sequence
from math import ceil
from typing import NamedTuple

import msgspec

from controlplane.scaling.arrivals import Arrivals
from controlplane.scaling.capacity import LEAST_S, Capacity, Service, ServiceSecond
from routing.contract.policy import Scaling

DRAIN_S = 30.0
"""Within which requests that wait already are to be served, where replicas start as fast."""
SPARE = 0.02
"""A need of so little above a whole number is no further replica."""
KEPT_S = 60.0
"""How long a number stands, with its age, while it cannot be told anew: after a restart of the conductor."""


class FleetSecond(NamedTuple):
    """What one second showed of a fleet."""

    arrivals_per_s: float
    in_flight: int
    """Those that wait among them."""
    waiting: int
    served_per_s: float
    limits: Sequence[int | None]
    """``max_concurrency`` of each replica that takes requests now."""
    limits_of_all: Sequence[int | None]
    """Of all that are meant to, whatever state they are in."""
    starting: int
    """Those that are not ready yet."""
    growth: float
    """See :meth:`controlplane.scaling.capacity.Service.capacity`."""
    kv_shares: Sequence[float]
    """KV memory in use, 0 to 1, of those replicas that say so."""
    start_s: float | None
    """How long a replica takes to start; ``None``: not known."""
    first_token_s: float | None = None
    """Within which 95 % of the first tokens came lately; ``None``: there were none."""
    first_token_objective_s: float | None = None


class ScalingSignal(msgspec.Struct, frozen=True, kw_only=True):
    """How many replicas a fleet needs."""

    desired: int | None
    """``None``: that cannot be told."""
    words: str
    """Why so many, or why it cannot be told."""
    taking: int
    """Replicas that take requests now."""
    starting: int
    """Replicas that are not ready yet."""
    arrivals_per_s: float
    """Requests that clients send, whatever becomes of them."""
    expected_per_s: float
    """The same by the time at which a replica that starts now is ready."""
    replica_per_s: float | None = None
    """What one replica can take, at the share of its places that it is to have in use."""
    used_percent: float | None = None
    """Places in use, of those of the replicas that take requests."""
    age_s: float = 0.0
    """How old ``desired`` is, where it cannot be told anew; KEPT_S at most."""


def said_before(last: ScalingSignal, ago_s: float, why: str) -> ScalingSignal | None:
    """What was said so long ago, with its age; ``None``: it is too old, or no number. That none was needed is
    not kept: it may be just what has changed. ``why``: why there is none of now."""
    age_s = last.age_s + ago_s
    if not last.desired or age_s > KEPT_S:
        return None
    words = f"{last.desired} were needed {age_s:.0f} s ago; {why}"
    return msgspec.structs.replace(last, words=words, age_s=age_s)


class Scaler:
    """Of one fleet; remembers a minute, and what it desired within ``scale_down_after_s``."""

    def __init__(self) -> None:
        self._arrivals = Arrivals()
        self._service = Service()
        self._desired: deque[tuple[float, int]] = deque()
        self._last: tuple[float, int] | None = None
        """When a number was last found, and which."""
        self._watched = 0
        """Seconds."""

    def begin(self, now_s: float, desired: int, age_s: float = 0.0) -> None:
        """What was said before by somebody else, so long ago."""
        self._last = (now_s - age_s, desired)
        self._desired.append(self._last)

    def second(self, now_s: float, seen: FleetSecond, policy: Scaling) -> ScalingSignal:
        """``now_s``: monotonic."""
        busy = max(seen.in_flight - seen.waiting, 0)
        self._arrivals.add(seen.arrivals_per_s)
        self._service.add(ServiceSecond(busy, seen.served_per_s, len(seen.limits)))
        start_s = policy.start_s if seen.start_s is None else seen.start_s
        level = self._arrivals.level()
        expected = self._arrivals.expected(level, start_s)
        places = _mean(seen.limits or seen.limits_of_all)
        capacity = None
        if places is not None:
            capacity = self._service.capacity(max(places * policy.target_percent / 100, 1.0), seen.growth)
        needed, words = _needed(seen, policy, expected, capacity)
        self._watched += 1
        if needed == 0 and seen.limits_of_all and self._last is None and self._watched < LEAST_S:
            needed, words = None, "cannot tell yet: it is watched for a few seconds only"
        age_s = 0.0
        if needed is None:
            desired, age_s, words = self._kept(now_s, words, policy)
        else:
            desired = self._held(now_s, needed, policy)
            self._last = (now_s, desired)
        if desired is not None and needed is not None and desired > needed:
            words += f"; {desired} were needed within the last {policy.scale_down_after_s:g} s"
        limit = _sum(seen.limits)
        return ScalingSignal(
            desired=desired,
            words=words,
            taking=len(seen.limits),
            starting=seen.starting,
            arrivals_per_s=level,
            expected_per_s=expected,
            replica_per_s=None if capacity is None else capacity.per_s,
            used_percent=100 * busy / limit if limit else None,
            age_s=age_s,
        )

    def _kept(self, now_s: float, words: str, policy: Scaling) -> tuple[int | None, float, str]:
        """The last number with its age, where it cannot be told anew. That none was needed is not kept: it
        may be just what has changed."""
        if self._last is None:
            return None, 0.0, words
        at, desired = self._last
        age_s = now_s - at
        if age_s > KEPT_S or not desired:
            return None, 0.0, words
        kept = min(desired, policy.max_replicas or desired)
        return kept, age_s, f"{desired} were needed {age_s:.0f} s ago; {words}"

    def _held(self, now_s: float, needed: int, policy: Scaling) -> int:
        most = needed if policy.max_replicas is None else min(needed, policy.max_replicas)
        wanted = max(most, policy.min_replicas)
        while self._desired and self._desired[0][0] < now_s - policy.scale_down_after_s:
            self._desired.popleft()
        while self._desired and self._desired[-1][1] <= wanted:
            self._desired.pop()
        self._desired.append((now_s, wanted))
        # A limit that was lowered holds at once.
        return min(self._desired[0][1], policy.max_replicas or self._desired[0][1])


def _needed(
    seen: FleetSecond, policy: Scaling, expected_per_s: float, capacity: Capacity | None
) -> tuple[int | None, str]:
    taking = len(seen.limits)
    if not seen.in_flight and expected_per_s < 1e-9:
        return 0, "no request lately"
    found: list[tuple[int, str]] = []
    if capacity is not None:
        found.append(_by_rate(seen, expected_per_s, capacity))
    if seen.kv_shares and len(seen.kv_shares) == taking:
        found.append(_by_memory(seen.kv_shares, policy))
    late = _by_first_tokens(seen, policy)
    if late is not None:
        found.append(late)
    if found:
        return max(found, key=lambda one: one[0])
    if not taking:
        return 1, "requests come, and no replica takes them; how much one can take is not known yet"
    if _mean(seen.limits) is None:
        return None, (
            "cannot tell: set max_concurrency, of the policy or of each replica, or let replicas report "
            "their KV memory, so that it is known how much one can take"
        )
    return None, "cannot tell yet: too few requests have ended within the last minute"


def _by_rate(seen: FleetSecond, expected_per_s: float, capacity: Capacity) -> tuple[int, str]:
    # A replica that starts now takes none of them before it is ready.
    backlog_per_s = seen.waiting / max(DRAIN_S, seen.start_s or 0.0)
    words = (
        f"{expected_per_s:.3g} requests/s expected, {capacity.per_s:.3g}/s a replica "
        f"({capacity.places:.3g} at once, {capacity.service_s:.3g} s each)"
    )
    if seen.waiting:
        words += f", {seen.waiting} wait"
    return max(ceil((expected_per_s + backlog_per_s) / capacity.per_s - SPARE), 1), words


def _by_memory(shares: Sequence[float], policy: Scaling) -> tuple[int, str]:
    used = sum(shares)
    mean_percent = 100 * used / len(shares)
    words = f"replicas use {mean_percent:.0f} % of their KV memory, {policy.target_percent:g} % is meant"
    return max(ceil(used / (policy.target_percent / 100) - SPARE), 1), words


def _by_first_tokens(seen: FleetSecond, policy: Scaling) -> tuple[int, str] | None:
    """Late first tokens ask for more replicas only where the present ones are busy."""
    objective_s, found_s, limit = seen.first_token_objective_s, seen.first_token_s, _sum(seen.limits)
    if objective_s is None or found_s is None or found_s <= objective_s or not seen.limits:
        return None
    busy = limit is not None and seen.in_flight >= limit * policy.target_percent / 100
    if not (seen.waiting or busy):
        return None
    more = ceil(len(seen.limits) * min(found_s / objective_s, 2.0))
    return more, f"95 % of first tokens came within {found_s:.3g} s, not {objective_s:.3g} s"


def _mean(limits: Sequence[int | None]) -> float | None:
    total = _sum(limits)
    return None if total is None else total / len(limits)


def _sum(limits: Sequence[int | None]) -> int | None:
    """``None``: there are none, or one has no limit."""
    known = [limit for limit in limits if limit is not None]
    return sum(known) if known and len(known) == len(limits) else None
