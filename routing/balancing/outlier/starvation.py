"""Starvation: a replica that is in use, but that no strategy asks, because of what it was like.

Theory. A failure counts as a slow response, and so does a hang. Strategies that go by load or by response
times then avoid the replica, often for half a minute: too long where it has healed, and too long where it has
not, since five failures in a row never come together. So such a replica is tried out with one request when it
has had none for a while: 0.5 s after a failure, 4 s after a silence and while it lasts. A response ends the
doubt, five failures eject the replica. What was learned while it was silent is forgotten when it is heard
again, so that its share is what it was as soon as that one request was answered.

A replica that is merely slower than the others is not tried out. Strategies do so by themselves
(:mod:`routing.balancing.learning.learned_speed`).

Source: our own.
"""

from collections.abc import Sequence

from routing.balancing.replica.state import Replica

AFTER_FAILURE_S = 0.5
AFTER_SILENCE_S = 4.0
SILENCE_PART = 0.125
"""Of a silence that passes between two requests at least."""
DOUBTED_FOR = 3
"""Requests after a silence."""


def doubt(replica: Replica, now: float) -> None:
    """The replica is silent now."""
    progress = replica.ejection.progress
    progress.doubted_until = replica.picked + DOUBTED_FOR
    progress.silent_at = now


def follow(replicas: Sequence[Replica], fleet: Sequence[Replica], now: float) -> None:
    """On the slow timer: mark those of the replicas in doubt that were sent nothing for a while, although it
    was their turn: the fleet was sent so many requests."""
    doubtful = [one for one in replicas if _is_in_doubt(one)]
    if not doubtful:
        return
    picked, weight = sum([one.picked for one in fleet]), sum([one.spec.weight for one in fleet])
    for replica in doubtful:
        progress = replica.ejection.progress
        silent = progress.silent_at > 0
        if replica.picked != progress.asked or (replica.in_flight and not silent) or not _is_in_use(replica):
            progress.asked, progress.asked_at, progress.fleet_asked = replica.picked, now, picked
            progress.is_due = False
            continue
        patience_s = AFTER_FAILURE_S if replica.ejection.failures else AFTER_SILENCE_S
        if silent:
            # Each may be lost there, so it is tried less and less often.
            patience_s = max(patience_s, (now - replica.quiet_since) * SILENCE_PART)
        turns = (picked - progress.fleet_asked) * replica.spec.weight / weight
        # Where all replicas are full of silent requests, the fleet is sent nothing, and nobody has a turn.
        progress.is_due = now - progress.asked_at >= patience_s and (silent or turns >= 1.0)


def _is_in_doubt(replica: Replica) -> bool:
    """Whether it has failed since its last success, or was silent lately."""
    state = replica.ejection
    progress = state.progress
    if state.failures or replica.picked < progress.doubted_until:
        return True
    if progress.is_due:
        progress.is_due = False
    return False


def _is_in_use(replica: Replica) -> bool:
    spec, ejection = replica.spec, replica.ejection
    return (
        spec.admin_state == "active"
        and spec.health == "ready"
        and spec.weight > 0
        and not ejection.until
        and not ejection.soft_until
        and replica.slow_start.started is None
    )
