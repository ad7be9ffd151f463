"""Panic: when most replicas look dead, the probes are more likely wrong than the replicas.

Theory. If fewer than half of the replicas that have ever passed a probe are ready, sending everything
to the few left would bring those down too. So health is ignored for replicas that have passed once.
Admin state is never ignored, and a replica still ``checking`` never gets traffic.

Source: Envoy's panic threshold (50 %).
"""

THRESHOLD = 0.5


def in_panic(passed_once: int, ready: int) -> bool:
    """Whether health is to be ignored. Both counts are of replicas whose admin state is active."""
    return ready < passed_once * THRESHOLD
