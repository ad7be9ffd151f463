"""Learned speeds of sibling workers: decayed evidence that the workers of a host show each other and add up.

On the slow timer, by way of the shared counts. Evidence is plain sums, so that it adds up without error.
"""

from collections.abc import Iterable
from math import exp

from routing.balancing.replica.learned_state import LearnedSpeed
from routing.balancing.replica.state import Replica
from routing.shared import shm_counters as cell
from routing.shared.shm_counters import CounterCells


def exchange_speeds(replicas: Iterable[Replica], now: float, tau: float) -> None:
    """Show own evidence, add up the peers'."""
    for replica in replicas:
        if replica.cells is not None:
            exchange_evidence(replica.cells, cell.LEARNED_SECONDS, replica.speed, now, tau)


def exchange_evidence(cells: CounterCells, first: int, known: LearnedSpeed, now: float, tau: float) -> None:
    """The same of one. ``first``: of the three fields that it is shown in, seconds, units and their time.

    Where nobody else has any more, those that had it have left: what they had stays with this worker.
    """
    view, own = cells.view, cells.own
    seconds = units = newest = 0.0
    for sibling in cells.siblings:
        at = view[sibling + first + 2]
        if at:  # most have nothing to show of most replicas of a large fleet
            keep = exp(min(0.0, (at - now) / tau))
            seconds += view[sibling + first] * keep
            units += view[sibling + first + 1] * keep
            if at > newest:
                newest = at
    if not newest and known.peer_units:
        keep = exp(min(0.0, (known.at - now) / tau)) if known.at else 0.0
        known.seconds = known.seconds * keep + known.peer_seconds
        known.units = known.units * keep + known.peer_units
        known.at = now
    if view[own + first + 1] != known.units or view[own + first + 2] != known.at:
        view[own + first] = known.seconds
        view[own + first + 1] = known.units
        view[own + first + 2] = known.at
    known.peer_seconds, known.peer_units = seconds, units
