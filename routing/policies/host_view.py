"""What the other workers of this host know about a replica, by way of the shared counts.

Counts are read often, at most every half millisecond (Counting: a poll that is older than the
requests sent since would herd; those are added by the worker itself), of large pools less often, so that
reading costs a worker 1 or 2 % of its time at most. Learned speed and ejections
are exchanged on the slow timer, ejections also whenever a worker is about to claim one.

An ejection holds on the whole host while some worker's claim is newer than every worker's last return.
"""

from collections.abc import Iterable
from math import exp

from routing.policies import ejection
from routing.replica import LearnedSpeed, Replica
from routing.replica_state.device_memory import Ask
from routing.shared import counts as cell
from routing.shared.counts import EXPECTED, EXPECTED_WORK, IN_FLIGHT, Cells
from routing.shared.limits import take

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
        in_flight, work, expected = float(replica.elsewhere), replica.elsewhere_work, 0.0
        is_limited = replica.limited
        for peer in cells.peers:
            in_flight += view[peer]
            work += view[peer + 1]
            if is_limited and (waiting := view[peer + EXPECTED]):
                expected += waiting
                work += view[peer + EXPECTED_WORK]
        replica.peer_in_flight = load = int(in_flight)
        if expected:
            load += int(expected)
        load += replica.failure_load
        replica.peer_load = load
        replica.peer_load_work = work
        replica.load = replica.in_flight + replica.expected + load
        replica.load_work = replica.work + replica.expected_work + work


def expect(replica: Replica, requests: int, work: float) -> None:
    """So many more requests of this worker wait for a place there; negative: fewer."""
    replica.expected += requests
    # Set to nothing, not subtracted: sums of floats must come back to it exactly.
    replica.expected_work = replica.expected_work + work if replica.expected else 0.0
    replica.load = replica.in_flight + replica.expected + replica.peer_load
    replica.load_work = replica.work + replica.expected_work + replica.peer_load_work
    if replica.cells is not None:
        replica.cells.write(cell.EXPECTED, replica.expected)
        replica.cells.write(cell.EXPECTED_WORK, replica.expected_work)


def has_place(replica: Replica, ask: Ask) -> bool:
    """Whether it serves one more such request, as far as this worker has seen."""
    limit, memory = replica.limit, replica.memory
    if limit is not None and replica.in_flight + replica.peer_in_flight - replica.elsewhere >= limit:
        return False
    return memory is None or memory.short(ask) is None


def with_place(replicas: Iterable[Replica], ask: Ask) -> list[Replica]:
    """Those of them that have one."""
    # has_place written out: this runs for dozens at a time.
    return [
        one
        for one in replicas
        if ((limit := one.limit) is None or one.in_flight + one.peer_in_flight - one.elsewhere < limit)
        and ((memory := one.memory) is None or memory.short(ask) is None)
    ]


def is_awaited(replica: Replica) -> bool:
    """Whether somebody waits for a place there."""
    return replica.load > replica.in_flight + replica.peer_in_flight


def claim_place(replica: Replica, ask: Ask) -> bool:
    """Have a place for one more request, and memory for it on its devices, if the host's workers together
    leave one. Count it at once, or another claim overwrites it."""
    memory = replica.memory
    if memory is None:
        return claim_slot(replica)
    if not memory.claim(ask):
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
    if cells is None or not cells.peers:
        return replica.in_flight < limit
    # What it writes is what the attempt then writes as well.
    return take(cells, IN_FLIGHT, 1, limit)


def exchange_speeds(replicas: Iterable[Replica], now: float, tau: float) -> None:
    """Show own evidence, add up the peers'."""
    for replica in replicas:
        if replica.cells is not None:
            exchange_evidence(replica.cells, cell.LEARNED_SECONDS, replica.speed, now, tau)


def exchange_evidence(cells: Cells, first: int, known: LearnedSpeed, now: float, tau: float) -> None:
    """The same of one. ``first``: of the three fields that it is shown in, seconds, units and their time.

    Where nobody else has any more, those that had it have left: what they had stays with this worker.
    """
    view, own = cells.view, cells.own
    seconds = units = newest = 0.0
    for peer in cells.peers:
        at = view[peer + first + 2]
        keep = exp(min(0.0, (at - now) / tau))
        seconds += view[peer + first] * keep
        units += view[peer + first + 1] * keep
        newest = max(newest, at)
    if not newest and known.peer_units:
        keep = exp(min(0.0, (known.at - now) / tau)) if known.at else 0.0
        known.seconds = known.seconds * keep + known.peer_seconds
        known.units = known.units * keep + known.peer_units
        known.at = now
    view[own + first] = known.seconds
    view[own + first + 1] = known.units
    view[own + first + 2] = known.at
    known.peer_seconds, known.peer_units = seconds, units


def show_ejection(replica: Replica) -> None:
    """Write own ejection, or its end, where peers see it."""
    cells, state = replica.cells, replica.ejection
    if cells is None:
        return
    cells.write(cell.PROBING_SINCE, 0.0)
    cells.write(cell.RETURNED_AT, state.returned_at)
    cells.write(cell.EJECTIONS_IN_A_ROW, state.in_a_row)
    cells.write(cell.EJECTION_LASTS, state.lasted_s)
    cells.write(cell.EJECTED_AT, state.claimed_at)
    cells.write(cell.EJECTED_UNTIL, state.until)


def follow_ejections(replica: Replica, now: float) -> None:
    """Take over what peers have ejected or let back since."""
    cells, state = replica.cells, replica.ejection
    if cells is None or not cells.peers:
        return
    view = cells.view
    returned = max(cells.peers_max(cell.RETURNED_AT), state.returned_at)
    newest, claimed = -1, max(returned, 0.0 if state.adopted else state.claimed_at)
    for peer in cells.peers:
        if view[peer + cell.EJECTED_UNTIL] and view[peer + cell.EJECTED_AT] > claimed:
            newest, claimed = peer, view[peer + cell.EJECTED_AT]
    if newest >= 0:
        until, in_a_row = view[newest + cell.EJECTED_UNTIL], int(view[newest + cell.EJECTIONS_IN_A_ROW])
        ejection.adopt(state, until, claimed, in_a_row, view[newest + cell.EJECTION_LASTS])
    elif state.until and (state.adopted or state.claimed_at <= returned):
        ejection.lift(state, returned if state.claimed_at <= returned else now)
        cells.write(cell.EJECTED_UNTIL, 0.0)


def claim_probe(replica: Replica, now: float) -> bool:
    """Claim the host's one probe request: write, read again, undo when another has it too."""
    cells = replica.cells
    if cells is None:
        return True
    if cells.peers_max(cell.PROBING_SINCE):
        return False
    cells.write(cell.PROBING_SINCE, now)
    if cells.peers_max(cell.PROBING_SINCE):
        cells.write(cell.PROBING_SINCE, 0.0)
        return False
    return True


def release_probe(replica: Replica) -> None:
    """The probe request ended without a verdict."""
    if replica.cells is not None:
        replica.cells.write(cell.PROBING_SINCE, 0.0)
