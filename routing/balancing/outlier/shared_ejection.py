"""Shared ejection: the workers of a host eject together, and send one probe request at a time on probation.

Workers exchange ejections through shared memory, on the slow timer and before each claim. An ejection holds
on the whole host while some worker's claim is newer than every worker's last return.
"""

from routing.balancing.outlier import ejection
from routing.balancing.replica.outlier_state import EjectionState
from routing.balancing.replica.state import Replica
from routing.shared import shm_counters as cell


def show_ejection(replica: Replica) -> None:
    """Write this worker's ejection, or its end, where sibling workers see it."""
    cells, state = replica.cells, replica.ejection
    if cells is None:
        return
    cells.write(cell.PROBING_SINCE, 0.0)
    cells.write(cell.RETURNED_AT, state.returned_at)
    cells.write(cell.EJECTIONS_IN_A_ROW, state.consecutive_ejections)
    cells.write(cell.EJECTION_LASTS, state.lasted_s)
    cells.write(cell.EJECTED_SINCE, state.since)
    cells.write(cell.BACK_OFF_UNTIL, state.back_off_until)
    cells.write(cell.EJECTED_FOR, state.cause)
    cells.write(cell.EJECTED_AT, state.claimed_at)
    cells.write(cell.EJECTED_UNTIL, state.until)


def follow_ejections(replica: Replica, now: float) -> None:
    """Follow what sibling workers have ejected or let back since."""
    cells, state = replica.cells, replica.ejection
    if cells is None or not cells.siblings:
        return
    view = cells.view
    if not state.until:
        for sibling in cells.siblings:
            if view[sibling + cell.EJECTED_UNTIL]:
                break
        else:
            return  # nobody has ejected it: the usual case
    returned = max(cells.siblings_max(cell.RETURNED_AT), state.returned_at)
    newest, claimed = -1, max(returned, 0.0 if state.adopted else state.claimed_at)
    for sibling in cells.siblings:
        if view[sibling + cell.EJECTED_UNTIL] and view[sibling + cell.EJECTED_AT] > claimed:
            newest, claimed = sibling, view[sibling + cell.EJECTED_AT]
    if newest >= 0:
        ejection.adopt(state, _shown(view, newest))
    elif state.until and (state.adopted or state.claimed_at <= returned):
        ejection.lift(state, returned if state.claimed_at <= returned else now)
        cells.write(cell.EJECTED_UNTIL, 0.0)


def _shown(view: "memoryview[float]", at: int) -> EjectionState:
    """The ejection that the worker with its cells there has shown."""
    other = EjectionState()
    other.until = view[at + cell.EJECTED_UNTIL]
    other.since = view[at + cell.EJECTED_SINCE]
    other.back_off_until = view[at + cell.BACK_OFF_UNTIL]
    other.claimed_at = view[at + cell.EJECTED_AT]
    other.consecutive_ejections = int(view[at + cell.EJECTIONS_IN_A_ROW])
    other.lasted_s = view[at + cell.EJECTION_LASTS]
    cause = int(view[at + cell.EJECTED_FOR])
    other.cause = cause if cause in ejection.ADOPTED else ejection.FAILURES
    return other


def claim_probe(replica: Replica, now: float) -> bool:
    """Claim the host's one probe request: write, read again, undo if another worker has it too."""
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
    """The probe request ended without a decision."""
    if replica.cells is not None:
        replica.cells.write(cell.PROBING_SINCE, 0.0)
