"""Panic threshold: when most replicas look dead, the probes are more likely wrong than the replicas.

Theory. If fewer than half of the replicas that have ever passed a probe are ready, sending all requests to
the few that are left would overload those too. So health is ignored for replicas that have passed once. Admin
state is never ignored, and a replica that is still ``checking`` never gets traffic.

Where a proxy prefers its own site, each site is judged by itself, and the fleet is in panic only if every
site is. A site fails as a whole (power, cooling, network). If its replicas look dead while another site's do
not, it has most likely failed. Failure mode: probes that cannot reach a site which works. Its requests then
go to the other sites, as many as fit there.

Source: Envoy's panic threshold (50 %).
"""

THRESHOLD = 0.5


def in_panic(passed_once: int, ready: int) -> bool:
    """Whether health is to be ignored. Both counts are of replicas whose admin state is active."""
    return ready < passed_once * THRESHOLD
