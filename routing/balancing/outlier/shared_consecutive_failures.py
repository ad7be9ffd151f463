"""Consecutive failures, of all workers of a host together.

Theory. Connections are shared out among workers, so that of eight each has an eighth of a replica's
failures: five in a row of each are forty, which take long where requests are rare. So each worker shows how
long its own row is, on the slow timer, and whose: beside that is how many requests the replica has answered
in each worker (:mod:`routing.balancing.outlier.success_rate` keeps that). While that number stands still, the
rows add up. Where it has grown, somebody has had an answer since, and what this worker had of its row before
says nothing of the host's.

What clients have of a row that fail elsewhere too is left out
(:mod:`routing.balancing.outlier.poison_clients`), and a row that is one client's in all workers ejects nobody
by this; where one worker has it all, its requests are looked at there.

What the others have is as old as their last look, a tenth of a second while they have requests. Where many
fail in that time, each worker's own row is long enough first.

Source: our own.
"""

from collections.abc import Callable

from routing.balancing.replica.client_source import UNKNOWN
from routing.balancing.replica.state import Replica
from routing.shared.shm_counters import (
    FAILURE_RUN,
    FAILURE_RUN_AFTER,
    FAILURE_RUN_CLIENT,
    SUCCEEDED,
    CounterCells,
)

SEVERAL = -1.0
"""Clients, or nobody knows whom."""


def begin(replica: Replica) -> None:
    """Its first failure since its last answer in this worker."""
    failure_run, cells = replica.ejection.failure_run, replica.cells
    failure_run.left_out = failure_run.judged = 0
    if cells is not None:
        cells.write(SUCCEEDED, replica.succeeded)
        failure_run.answers = _answers(cells)


def end(replica: Replica) -> None:
    """It has answered."""
    failure_run, cells = replica.ejection.failure_run, replica.cells
    if cells is not None and failure_run.is_shown:
        failure_run.is_shown = False
        cells.write(FAILURE_RUN, 0.0)
        cells.write(SUCCEEDED, replica.succeeded)


def length(replica: Replica, fails_elsewhere: Callable[[int], bool]) -> int:
    """Of the host's row, if that has grown since it was judged and several clients have made it; else 0.
    Shows this worker's part to the others."""
    cells, state = replica.cells, replica.ejection
    if cells is None or not cells.siblings:
        return 0
    if not state.failures:
        end(replica)
        return 0
    failure_run = state.failure_run
    answers = _answers(cells)
    if answers != failure_run.answers:
        failure_run.answers = answers
        failure_run.left_out, failure_run.judged = state.failures, 0
    counted = [who for who in failure_run.clients if not fails_elsewhere(who)]
    own = min(
        state.failures - failure_run.left_out, sum(failure_run.clients[who].failures for who in counted)
    )
    client = float(counted[0]) if len(counted) == 1 and counted[0] != UNKNOWN else SEVERAL
    failure_run.is_shown = True
    cells.write(FAILURE_RUN_CLIENT, client)
    cells.write(FAILURE_RUN_AFTER, answers)
    cells.write(FAILURE_RUN, own)
    if not own:
        return 0
    view, total, clients = cells.view, own, {client}
    for sibling in cells.siblings:
        # One that is not up to date with answers has not looked at its row since.
        if (theirs := view[sibling + FAILURE_RUN]) and view[sibling + FAILURE_RUN_AFTER] == answers:
            total += int(theirs)
            clients.add(view[sibling + FAILURE_RUN_CLIENT])
    return total if total > failure_run.judged and (len(clients) > 1 or SEVERAL in clients) else 0


def _answers(cells: CounterCells) -> float:
    """That all workers have shown: whoever sums them has the same number."""
    return cells.view[cells.own + SUCCEEDED] + cells.siblings_sum(SUCCEEDED)
