"""Eligibility: admin state × health × ejection, three facts that are never folded into one.

A replica is eligible when all three allow it. :func:`ineligible_because` says in plain words which of them
does not. :func:`partition` sorts a whole pool: the eligible replicas and, if these are too few, others that
are better than an error (:func:`asked_despite`).
"""

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field

from routing.balancing.outlier.panic import in_panic
from routing.balancing.replica.state import Replica


@dataclass(slots=True)
class Eligibility:
    """A pool sorted out at one moment."""

    eligible: list[Replica] = field(default_factory=list)
    """Those that are asked, in panic and as a last resort with others among them."""
    ejected: list[Replica] = field(default_factory=list)
    """Those that an ejection alone keeps from being asked, the next ones included."""
    probation: list[Replica] = field(default_factory=list)
    """Their ejection is over; each waits for its one probe request."""
    resting: list[Replica] = field(default_factory=list)
    """Those that a rest alone keeps from being asked (:mod:`routing.balancing.outlier.resting`)."""
    starved: list[Replica] = field(default_factory=list)
    """Of the eligible ones, those that are due for a request that no strategy sends them."""
    panic: bool = False
    """Health is being ignored for replicas that have passed a probe once."""
    last_resort: bool = False
    """Nothing but ejected replicas is left, so they are used."""
    next_end: float = 0.0
    """When the next ejection or rest ends, 0: none is running."""


def partition(replicas: Sequence[Replica], now: float, site: str = "") -> Eligibility:
    """Sort a pool's replicas by whether they may receive something new at ``now``.

    ``site``: the proxy's own, where sites matter; those that name none count as there.
    """
    result = Eligibility(panic=is_panic(replicas, site))
    eligible, ejected, panic = result.eligible, result.ejected, result.panic
    for replica in replicas:
        # _intended and _healthy written out: a fleet may have thousands.
        spec = replica.spec
        if spec.admin_state != "active" or spec.weight <= 0 or replica.security.no_credential:
            continue
        if spec.health != "ready" and not _healthy(replica, panic):
            continue
        state = replica.ejection
        ends = state.until
        if not ends:
            rests_until = state.rests_until
            if rests_until > now:
                result.resting.append(replica)
                if not result.next_end or rests_until < result.next_end:
                    result.next_end = rests_until
                continue
            eligible.append(replica)
            if state.progress.is_due:
                result.starved.append(replica)
            continue
        ejected.append(replica)
        if now >= ends:
            result.probation.append(replica)
        elif not result.next_end or ends < result.next_end:
            result.next_end = ends
    if not result.eligible and result.resting:
        result.eligible = result.resting
    if not result.eligible and ejected:
        # An ejected replica is better than none: the limit on ejections is a share of what is left.
        result.eligible = ejected
        result.last_resort = True
    return result


def available(replicas: Iterable[Replica], site: str = "") -> int:
    """How many replicas could be in use if none was ejected: what the limit on ejections is a share of.

    ``site``: as for :func:`partition`."""
    everyone = list(replicas)
    panic = is_panic(everyone, site)
    return sum(1 for replica in everyone if _intended(replica) and _healthy(replica, panic))


def is_panic(replicas: Iterable[Replica], site: str = "") -> bool:
    """Whether health is ignored. ``site``: as for :func:`partition`."""
    if not site:
        known = working = 0
        for replica in replicas:
            spec = replica.spec
            if spec.admin_state == "active" and spec.has_passed:
                known += 1
                working += spec.health == "ready"
        return bool(known) and in_panic(known, working)
    passed: Counter[str] = Counter()
    ready: Counter[str] = Counter()
    for replica in replicas:
        spec = replica.spec
        if spec.admin_state == "active" and spec.has_passed:
            place = spec.site or site
            passed[place] += 1
            ready[place] += spec.health == "ready"
    return bool(passed) and all(in_panic(passed[place], ready[place]) for place in passed)


def may_finish(replica: Replica, panic: bool) -> bool:
    """Whether it may get requests about work that it has accepted before, also while it drains."""
    state = replica.spec.admin_state
    if replica.security.no_credential:
        return False
    return state != "maintenance" and _healthy(replica, panic) and not replica.ejection.until


def is_closed(replica: Replica) -> bool:
    """Whether it gets no new requests for more than a moment: set so by an operator, or down."""
    return not _intended(replica) or replica.spec.health == "down"


def ineligible_because(replica: Replica, now: float) -> list[str]:
    """Why a replica gets no new requests, one entry a reason; empty: it is eligible."""
    spec, ejection, found = replica.spec, replica.ejection, []
    if spec.admin_state != "active":
        found.append(f"{spec.admin_state}, set by an operator")
    if spec.weight <= 0:
        found.append("weight 0")
    if replica.security.no_credential:
        found.append(replica.security.no_credential)
    if spec.health != "ready":
        found.append(_HEALTH_WORDS[spec.health])
    if ejection.until:
        left = ejection.until - now
        when = f"for another {left:.0f} s" if left > 0 else "until its probe request succeeds"
        found.append(f"ejected {when}: {ejection.reason}")
    elif ejection.rests_until > now:
        left = ejection.rests_until - now
        found.append(f"rests for another {left:.0f} s: it refused a request (429 or 503)")
    return found


def asked_despite(replica: Replica, asked: Container[Replica]) -> str:
    """Why a replica that is not eligible still gets requests; empty: it does not, or it is eligible.
    ``asked``: those that get requests."""
    if replica not in asked:
        return ""
    if replica.ejection.until or replica.ejection.rests_until:
        return "still gets requests: all other replicas are out as well"
    if replica.spec.health != "ready":
        return f"still gets requests: {_PANIC_WORDS}"
    return ""


def summary(fleet: str, replicas: Sequence[Replica]) -> str:
    """Why nobody can be picked: ``2 replicas of fleet digits: 1 checking, 1 draining``."""
    if not replicas:
        return f"fleet {fleet} has no replicas"
    count = f"{len(replicas)} replica{'s' if len(replicas) > 1 else ''}"
    states = Counter(_first_obstacle(replica) for replica in replicas)
    return f"{count} of fleet {fleet}: {', '.join(f'{n} {state}' for state, n in states.items())}"


def _first_obstacle(replica: Replica) -> str:
    spec = replica.spec
    if spec.admin_state != "active":
        return spec.admin_state
    if spec.weight <= 0:
        return "with weight 0"
    if replica.security.no_credential:
        return "without its credential"  # which, and why, is for operators: clients see these words
    if spec.health != "ready":
        return spec.health
    return "ejected" if replica.ejection.until else "ready"


def _intended(replica: Replica) -> bool:
    spec = replica.spec
    return spec.admin_state == "active" and spec.weight > 0 and not replica.security.no_credential


def _healthy(replica: Replica, panic: bool) -> bool:
    spec = replica.spec
    return spec.health == "ready" or (panic and spec.has_passed and spec.health != "checking")


_PANIC_WORDS = "panic mode, fewer than half of the replicas that ever passed a probe are ready"

_HEALTH_WORDS = {
    "checking": "checking: no probe has passed yet",
    "unready": "unready: its readiness probe fails",
    "down": "down: its probes fail",
}
