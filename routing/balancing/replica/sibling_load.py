"""Load of sibling workers: what they have in flight at a replica, and claims of the slots that are left.

The counts are read from shared memory, at most every half millisecond. Counts that are older than the
requests sent since then would make all workers pick the same replica (herding); a worker adds its own
requests itself. Large pools are read less often, so that reading takes 1 or 2 % of a worker's time at most.
"""

from collections.abc import Iterable

from routing.balancing.replica.device_memory import Demand
from routing.balancing.replica.state import Replica
from routing.shared import shm_counters as cell
from routing.shared.limits import take
from routing.shared.shm_counters import EXPECTED, EXPECTED_WORK, IN_FLIGHT

COUNTS_EVERY_S = 0.0005
COUNTS_EACH_S = 15e-6
"""And as often as that for each replica: 15 ms for 1,000, which take 0.2 ms to read."""


def counts_every_s(replicas: int) -> float:
    """After which time the counts of so many are read again."""
    return max(COUNTS_EVERY_S, replicas * COUNTS_EACH_S)


def read_counts(replicas: Iterable[Replica]) -> None:
    """Renew each replica's load: own plus what peers have now."""
    for replica in replicas:
        cells = replica.cells
        if cells is None:
            continue
        view = cells.view
        in_flight, work, queued = float(replica.external_load), replica.external_load_work, 0.0
        is_limited = replica.limited
        for sibling in cells.siblings:
            in_flight += view[sibling]
            work += view[sibling + 1]
            if is_limited and (waiting := view[sibling + EXPECTED]):
                queued += waiting
                work += view[sibling + EXPECTED_WORK]
        replica.peer_in_flight = load = int(in_flight)
        if queued:
            load += int(queued)
        load += replica.failure_load.requests
        replica.peer_load = load
        replica.peer_load_work = work
        replica.load = replica.in_flight + replica.queued + load
        replica.load_work = replica.work + replica.queued_work + work


def count_queued(replica: Replica, requests: int, work: float) -> None:
    """So many more requests of this worker wait for a slot there; negative: fewer."""
    replica.queued += requests
    # Set to nothing, not subtracted: sums of floats must come back to it exactly.
    replica.queued_work = replica.queued_work + work if replica.queued else 0.0
    replica.load = replica.in_flight + replica.queued + replica.peer_load
    replica.load_work = replica.work + replica.queued_work + replica.peer_load_work
    if replica.cells is not None:
        replica.cells.write(cell.EXPECTED, replica.queued)
        replica.cells.write(cell.EXPECTED_WORK, replica.queued_work)


def count_external(replica: Replica, requests: int, work: float) -> None:
    """So many requests of others than this host's workers are there: load for strategies, of no limit."""
    replica.external_load, replica.external_load_work = requests, work
    if replica.cells is None:
        # As read_counts does for those that have peers.
        replica.peer_in_flight = requests
        replica.peer_load = requests + replica.failure_load.requests
        replica.peer_load_work = work
        replica.load = replica.in_flight + replica.queued + replica.peer_load
        replica.load_work = replica.work + replica.queued_work + work


def count_failures(replica: Replica, requests: int) -> None:
    """So many more failures count as requests in flight; negative: fewer."""
    replica.failure_load.requests += requests
    # Beside what peers have there, from which the replica's load is made up anew when it has become empty.
    replica.peer_load += requests
    replica.load += requests


def has_slot(replica: Replica, demand: Demand) -> bool:
    """Whether it serves one more such request, as far as this worker has seen."""
    limit, memory = replica.limit, replica.memory
    if limit is not None and replica.in_flight + replica.peer_in_flight - replica.external_load >= limit:
        return False
    return memory is None or memory.short(demand) is None


def with_slot(replicas: Iterable[Replica], demand: Demand) -> list[Replica]:
    """Those of them that have one."""
    # has_slot written out: this runs for dozens at a time.
    return [
        one
        for one in replicas
        if ((limit := one.limit) is None or one.in_flight + one.peer_in_flight - one.external_load < limit)
        and ((memory := one.memory) is None or memory.short(demand) is None)
    ]


def is_waited_for(replica: Replica) -> bool:
    """Whether a request waits for a slot there."""
    return replica.load > replica.in_flight + replica.peer_in_flight


def claim_slot_and_memory(replica: Replica, demand: Demand) -> bool:
    """Claim a slot for one more request, and memory for it on its devices, if the host's workers together
    leave one. Count it at once, or another claim overwrites it."""
    memory = replica.memory
    if memory is None:
        return claim_slot(replica)
    if not memory.claim(demand):
        return False
    if claim_slot(replica):
        return True
    memory.unclaim()
    return False


def claim_slot(replica: Replica) -> bool:
    """The same at a replica that has no memory leased."""
    limit, cells = replica.limit, replica.cells
    if limit is None:
        return True
    if cells is None or not cells.siblings:
        return replica.in_flight < limit
    # What it writes is what the attempt then writes as well.
    return take(cells, IN_FLIGHT, 1, limit)
