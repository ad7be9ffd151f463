"""Silent replica (stall): it has requests and sends nothing for them, or never comes to an end with one.

Theory. Two things show that a replica hangs. No byte has come from it for ``stall_s``, on any request. Or
requests wait at it for that long, half of them or more in silence, and none has come to its end meanwhile: it
sends a head or a token now and then, and that is all. Where responses do not stream, three times the fleet's
99th percentile counts instead of ``stall_s`` if it is longer, for silence is then how a slow response looks.

Both are seen sooner where the fleet is fast: after ten times its 99th percentile, and 2 s at least, if three
requests or more have waited for so long, every one of them in silence, and other replicas have finished
requests meanwhile. One slow request is no evidence, and neither is a fleet that is silent as a whole. A
request that is larger than usual may take three times as long as others of its size did.

A worker that was held itself (stopped, starved of CPU) has heard nothing because it did not listen. So its
silence is counted from then on (``heard_from``).

Requests that may be sent twice are then taken from the replica, if the others answer while it does not. Where
nobody answers, or nothing is known of the fleet yet, they go on waiting. The same holds for the probe request
of a replica that is out for any other reason.

A connection may be lost though the replica is back. So what was sent before the return and is still silent a
second after it is taken from the replica too. It is no evidence any more: only what was sent later is. What
may not be sent twice waits on, but if it is silent for longer than a fast fleet waits, it takes no slot and
is no load. While a replica is silent, its slots are no reason not to try it out: nobody else would give them
back.

What a single request hears is known to its sender alone. So it is asked, by way of the replica's endpoint,
and only when the replica has finished nothing for so long. A pool without a proxy goes by the first rule
alone.

Source: our own. Envoy and HAProxy time out single requests.
"""

from collections.abc import Iterable
from typing import NamedTuple

from routing.balancing.outlier import ejection, starvation
from routing.balancing.replica.state import Replica

LEAST_S = 2.0
TIMES_P99 = 10.0
TIMES_USUAL = 3.0
SEVERAL = 3


class Silence(NamedTuple):
    """Why a replica is taken to hang."""

    words: str
    whole: bool
    """Not one byte has come, so that the next one shows that it lives."""


def follow(replica: Replica, now: float) -> None:
    """On the slow timer: note when the replica last finished a request, or had none."""
    progress = replica.ejection.progress
    if replica.succeeded != progress.finished:
        progress.finished = replica.succeeded
        progress.finished_at = progress.succeeded_at = now
    elif replica.in_flight <= replica.stall_exempt:
        progress.finished_at = now


def is_over(replica: Replica) -> bool:
    """Whether one that was silent has been heard again. To be asked until it is."""
    progress = replica.ejection.progress
    if replica.last_heard_at <= progress.silent_at:
        return False
    progress.silent_at = 0.0
    return True


def early_s(p99_s: float) -> float:
    """After how long a fast fleet does not wait any longer; 0: nothing is known of it."""
    return max(LEAST_S, TIMES_P99 * p99_s) if p99_s else 0.0


def patience_s(p99_s: float, stall_s: float) -> float:
    """How long a fleet waits for a replica that says nothing while the others answer."""
    return early_s(p99_s) or stall_s


def judge(
    replica: Replica,
    replicas: Iterable[Replica],
    now: float,
    stall_s: float,
    p99_s: float,
    work_s: float = 0.0,
    heard_from: float = 0.0,
) -> Silence | None:
    """Whether the replica hangs; ``None``: it does not, or nobody knows.

    ``work_s``: what a unit of estimated work usually takes in this fleet, in seconds. ``heard_from``: since
    when this worker has listened without a break."""
    waiting = replica.in_flight - replica.stall_exempt
    if waiting <= 0:
        return None
    quiet_since, finished_at = replica.quiet_since, replica.ejection.progress.finished_at
    if replica.endpoint is not None:
        quiet_since, finished_at = max(quiet_since, heard_from), max(finished_at, heard_from)
    silent_s, returned_at = now - quiet_since, replica.ejection.returned_at
    limit_s, early = max(stall_s, 3 * p99_s), early_s(p99_s)
    if ejection.stalled(waiting, quiet_since, now, stall_s, p99_s) and (
        # What was sent before the return may wait for ever: the connection is lost, not the replica.
        not _wait_since_before(replica, returned_at, now)
        or requests(replica, now, limit_s, after=returned_at)[1]
    ):
        return Silence(f"stalled: nothing heard for {silent_s:.0f} s with {waiting} in flight", True)
    unfinished_s = now - finished_at
    if early and silent_s > early:
        starvation.doubt(replica, now)
    if early < limit_s and 0 < early < unfinished_s and _others_answer(replica, replicas, now - early / 2):
        old, silent = requests(replica, now, early, TIMES_USUAL * work_s, returned_at)
        if silent >= SEVERAL and silent == old:
            words = f"stalled: {silent} requests have heard nothing for {early:.1f} s"
            return Silence(f"{words}, while other replicas answer", silent_s > early)
    if unfinished_s > limit_s:
        old, silent = requests(replica, now, limit_s, after=returned_at)
        if silent and 2 * silent >= old:
            words = f"stalled: {silent} in flight have heard nothing for {limit_s:.0f} s"
            return Silence(f"{words}, and no request was finished", False)
    return None


def probe_hangs(replica: Replica, now: float, for_s: float) -> bool:
    """Whether the probe request of an ejected replica has heard nothing for so long. Not while its client is
    still sending it."""
    state = replica.ejection
    if not state.probing or now - max(state.probed_at, replica.last_heard_at) <= for_s:
        return False
    if replica.endpoint is None:
        return state.cause == ejection.SILENCE
    return requests(replica, now, for_s)[1] > 0


def holds_slots(replica: Replica, now: float, stall_s: float, p99_s: float) -> bool:
    """Whether all that is there is silent, so that the slots it takes are no reason not to try the replica
    out."""
    waiting = replica.in_flight - replica.stall_exempt
    return waiting > 0 and now - replica.quiet_since > patience_s(p99_s, stall_s)


def may_free(replica: Replica, replicas: Iterable[Replica], now: float, p99_s: float) -> bool:
    """Whether requests that wait at a silent replica are better off elsewhere."""
    return p99_s > 0 and _others_answer(replica, replicas, now - early_s(p99_s) / 2)


def requests(
    replica: Replica, now: float, for_s: float, work_s: float = 0.0, after: float = 0.0
) -> tuple[int, int]:
    """How many requests wait at the replica for so long, and how many of them have heard nothing as long.
    ``work_s``: seconds that each unit of a request's work allows it, where that is more. ``after``: only
    those that were sent after that."""
    endpoint = replica.endpoint
    return (0, 0) if endpoint is None else endpoint.silent_requests(now, for_s, work_s, after)


def _wait_since_before(replica: Replica, at: float, now: float) -> bool:
    """Whether a request waits that was sent before then."""
    return at > 0 and requests(replica, now, now - at)[0] > 0


def _others_answer(replica: Replica, replicas: Iterable[Replica], since: float) -> bool:
    return any(
        other is not replica and not other.ejection.until and other.ejection.progress.succeeded_at > since
        for other in replicas
    )
