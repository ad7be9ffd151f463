"""Consecutive failures, summed over all workers of a host.

Theory. Connections are spread over the workers. With eight workers, each sees an eighth of a replica's
failures: five in a row at each are forty, which take long where requests are rare. So on the slow timer each
worker shows the length of its own row, and which clients it came from. Beside it stands how many responses
the replica has given in each worker (:mod:`routing.balancing.outlier.success_rate` keeps that). While these
numbers do not grow, the rows add up. Where one has grown, some worker had a response since then, and the
failures before it no longer count for the host.

Failures of clients that fail elsewhere too are left out (:mod:`routing.balancing.outlier.poison_clients`). A
row of one client in all workers ejects nobody by this rule. If one worker has the whole row, that worker
looks at the single requests.

What the others show is as old as their last timer, a tenth of a second while they have requests. Where many
requests fail in that time, each worker's own row is long enough first.

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
    """The replica's first failure since its last response in this worker."""
    failure_run, cells = replica.ejection.failure_run, replica.cells
    failure_run.left_out = failure_run.judged = 0
    if cells is not None:
        cells.write(SUCCEEDED, replica.succeeded)
        failure_run.answers = _answers(cells)


def end(replica: Replica) -> None:
    """The replica has responded."""
    failure_run, cells = replica.ejection.failure_run, replica.cells
    if cells is not None and failure_run.is_shown:
        failure_run.is_shown = False
        cells.write(FAILURE_RUN, 0.0)
        cells.write(SUCCEEDED, replica.succeeded)


def length(replica: Replica, fails_elsewhere: Callable[[int], bool]) -> int:
    """Length of the host's row of failures; 0 if it has not grown since it was judged, or if one client made
    all of it. Shows this worker's part to the others."""
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
        # One that is not up to date with responses has not looked at its row since.
        if (theirs := view[sibling + FAILURE_RUN]) and view[sibling + FAILURE_RUN_AFTER] == answers:
            total += int(theirs)
            clients.add(view[sibling + FAILURE_RUN_CLIENT])
    return total if total > failure_run.judged and (len(clients) > 1 or SEVERAL in clients) else 0


def _answers(cells: CounterCells) -> float:
    """That all workers have shown: whoever sums them has the same number."""
    return cells.view[cells.own + SUCCEEDED] + cells.siblings_sum(SUCCEEDED)
