"""Ejections shared by the workers of a host, and the host's one probe request of a replica on probation.

Exchanged by way of the shared counts on the slow timer, and whenever a worker is about to claim an ejection.
An ejection holds on the whole host while some worker's claim is newer than every worker's last return.
"""

from routing.balancing.outlier import ejection
from routing.balancing.replica.state import Replica
from routing.shared import shm_counters as cell


def show_ejection(replica: Replica) -> None:
    """Write own ejection, or its end, where peers see it."""
    cells, state = replica.cells, replica.ejection
    if cells is None:
        return
    cells.write(cell.PROBING_SINCE, 0.0)
    cells.write(cell.RETURNED_AT, state.returned_at)
    cells.write(cell.EJECTIONS_IN_A_ROW, state.consecutive_ejections)
    cells.write(cell.EJECTION_LASTS, state.lasted_s)
    cells.write(cell.EJECTED_AT, state.claimed_at)
    cells.write(cell.EJECTED_UNTIL, state.until)


def follow_ejections(replica: Replica, now: float) -> None:
    """Take over what peers have ejected or let back since."""
    cells, state = replica.cells, replica.ejection
    if cells is None or not cells.siblings:
        return
    view = cells.view
    returned = max(cells.siblings_max(cell.RETURNED_AT), state.returned_at)
    newest, claimed = -1, max(returned, 0.0 if state.adopted else state.claimed_at)
    for sibling in cells.siblings:
        if view[sibling + cell.EJECTED_UNTIL] and view[sibling + cell.EJECTED_AT] > claimed:
            newest, claimed = sibling, view[sibling + cell.EJECTED_AT]
    if newest >= 0:
        until, consecutive_ejections = (
            view[newest + cell.EJECTED_UNTIL],
            int(view[newest + cell.EJECTIONS_IN_A_ROW]),
        )
        ejection.adopt(state, until, claimed, consecutive_ejections, view[newest + cell.EJECTION_LASTS])
    elif state.until and (state.adopted or state.claimed_at <= returned):
        ejection.lift(state, returned if state.claimed_at <= returned else now)
        cells.write(cell.EJECTED_UNTIL, 0.0)


def claim_probe(replica: Replica, now: float) -> bool:
    """Claim the host's one probe request: write, read again, undo when another has it too."""
    cells = replica.cells
    if cells is None:
        return True
    if cells.siblings_max(cell.PROBING_SINCE):
        return False
    cells.write(cell.PROBING_SINCE, now)
    if cells.siblings_max(cell.PROBING_SINCE):
        cells.write(cell.PROBING_SINCE, 0.0)
        return False
    return True


def release_probe(replica: Replica) -> None:
    """The probe request ended without a verdict."""
    if replica.cells is not None:
        replica.cells.write(cell.PROBING_SINCE, 0.0)
