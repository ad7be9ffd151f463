"""Failures in a row, of all workers of a host together.

Theory. Connections are shared out among workers, so that of eight each has an eighth of a replica's
failures: five in a row of each are forty, which take long where requests are rare. So each worker shows how
long its own row is, on the slow timer, and whose: beside that is how many requests the replica has answered
in each worker (:mod:`routing.policies.success_rate` keeps that). While that number stands still, the rows
add up. Where it has grown, somebody has had an answer since, and what this worker had of its row before
says nothing of the host's.

What clients have of a row that fail elsewhere too is left out (:mod:`routing.policies.suspects`), and a row
that is one client's in all workers ejects nobody by this; where one worker has it all, its requests are
looked at there.

What the others have is as old as their last look, a tenth of a second while they have requests. Where many
fail in that time, each worker's own row is long enough first.

Source: our own.
"""

from collections.abc import Callable

from routing.replica import Replica
from routing.replica_state.source import UNKNOWN
from routing.shared.counts import ROW, ROW_AFTER, ROW_CLIENT, SUCCEEDED, Cells

SEVERAL = -1.0
"""Clients, or nobody knows whom."""


def begin(replica: Replica) -> None:
    """Its first failure since its last answer in this worker."""
    row, cells = replica.ejection.row, replica.cells
    row.left_out = row.judged = 0
    if cells is not None:
        cells.write(SUCCEEDED, replica.succeeded)
        row.answers = _answers(cells)


def end(replica: Replica) -> None:
    """It has answered."""
    row, cells = replica.ejection.row, replica.cells
    if cells is not None and row.is_shown:
        row.is_shown = False
        cells.write(ROW, 0.0)
        cells.write(SUCCEEDED, replica.succeeded)


def length(replica: Replica, fails_elsewhere: Callable[[int], bool]) -> int:
    """Of the host's row, if that has grown since it was judged and several clients have made it; else 0.
    Shows this worker's part to the others."""
    cells, state = replica.cells, replica.ejection
    if cells is None or not cells.peers:
        return 0
    if not state.failures:
        end(replica)
        return 0
    row = state.row
    answers = _answers(cells)
    if answers != row.answers:
        row.answers = answers
        row.left_out, row.judged = state.failures, 0
    counted = [who for who in row.clients if not fails_elsewhere(who)]
    own = min(state.failures - row.left_out, sum(row.clients[who].failures for who in counted))
    client = float(counted[0]) if len(counted) == 1 and counted[0] != UNKNOWN else SEVERAL
    row.is_shown = True
    cells.write(ROW_CLIENT, client)
    cells.write(ROW_AFTER, answers)
    cells.write(ROW, own)
    if not own:
        return 0
    view, total, clients = cells.view, own, {client}
    for peer in cells.peers:
        # One that is not up to date with answers has not looked at its row since.
        if (theirs := view[peer + ROW]) and view[peer + ROW_AFTER] == answers:
            total += int(theirs)
            clients.add(view[peer + ROW_CLIENT])
    return total if total > row.judged and (len(clients) > 1 or SEVERAL in clients) else 0


def _answers(cells: Cells) -> float:
    """That all workers have shown: whoever sums them has the same number."""
    return cells.view[cells.own + SUCCEEDED] + cells.peers_sum(SUCCEEDED)
