"""Rest: in slow start a replica's one place stays free for part of the time, where less than one is due.

Theory. Places are whole. Of four, a tenth is none, and one is a quarter: where the rest of the fleet is
nearly full, that one is always taken, and the replica has more than a quarter of its fair share from the
first moment (in simulation, 16 replicas of 4 places at 85 % load). So what it is given beyond its due it
makes up for: on the slow timer its place counts as taken, or not, for the time since the last look, and as
long as that is more than its share of the time, the place stays free. Looks are not in step with requests,
so they are a fair sample of short ones, too.

It rests for the sake of the others' speed, so only where others can serve instead: at least half of those
that are asked are not in slow start, and nobody has waited for longer than a mean answer takes.

Source: our own; a share of the time where a share of the places is too fine is as old as time slices.
"""

from collections.abc import Sequence

from routing.replica import Replica

LONGEST_LOOK_S = 1.0
"""What was seen says nothing of more time than this."""


def may_be_given(replicas: Sequence[Replica], waited_s: float, mean_answer_s: float) -> bool:
    """Whether a replica may rest. ``replicas``: that are asked; ``waited_s``: by who has waited longest."""
    started = sum([replica.ramp_started is not None for replica in replicas])
    return 2 * started <= len(replicas) and waited_s <= mean_answer_s


def is_due(replica: Replica, places: float, elapsed_s: float) -> bool:
    """Whether it rests until the next look. ``places``: that are due to it; from 1 on it never does."""
    taken = replica.in_flight + replica.peer_in_flight > replica.elsewhere
    beyond_s = replica.overdrawn_s + min(elapsed_s, LONGEST_LOOK_S) * (taken - places)
    replica.overdrawn_s = max(0.0, beyond_s)
    return replica.overdrawn_s > 0.0
