"""ORCA load report: a replica's load, read from a response header field and stored in its state."""

from collections.abc import Callable
from functools import partial
from time import monotonic

from routing.balancing.learning import reported_load
from routing.balancing.replica.state import Replica
from routing.contract import orca_header


def load_listener(replica: Replica) -> Callable[[bytes], None]:
    """The listener of the connections to this replica: called with the header field of each report."""
    return partial(_on_report, replica)


def _on_report(replica: Replica, field: bytes) -> None:
    report = orca_header.parse(field)
    if report is None:
        replica.load_reports.refused += 1
    else:
        reported_load.record(replica, report, monotonic())
