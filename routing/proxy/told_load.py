"""What a replica tells of its load in an answer: read, refused quietly, and kept at the replica."""

from collections.abc import Callable
from functools import partial
from time import monotonic

from routing.contract import load_header
from routing.policies import reported_load
from routing.replica import Replica


def listener(replica: Replica) -> Callable[[bytes], None]:
    """For the connections to this replica."""
    return partial(_told, replica)


def _told(replica: Replica, field: bytes) -> None:
    report = load_header.parse(field)
    if report is None:
        replica.reports_refused += 1
    else:
        reported_load.heard(replica, report, monotonic())
