"""Panic threshold: when most replicas look dead, the probes are more likely wrong than the replicas.

Theory. If fewer than half of the replicas that have ever passed a probe are ready, sending everything
to the few left would bring those down too. So health is ignored for replicas that have passed once.
Admin state is never ignored, and a replica still ``checking`` never gets traffic.

Where a proxy prefers its own site, sites are judged apart, and it is panic only when that is so at each of
them: a site fails as a whole (its power, its cooling, its line), so one whose replicas are dead beside one
whose are not has most likely failed, however many of the fleet were there. Failure mode: probes that cannot
reach a site which works; its requests then go to the others, as many as fit there.

Source: Envoy's panic threshold (50 %).
"""

THRESHOLD = 0.5


def in_panic(passed_once: int, ready: int) -> bool:
    """Whether health is to be ignored. Both counts are of replicas whose admin state is active."""
    return ready < passed_once * THRESHOLD
