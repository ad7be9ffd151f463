"""Load reports (ORCA): what one replica says of its own load. Written by
:mod:`routing.balancing.learning.reported_load` and by the proxy, which reads the reports."""

from collections import deque
from math import inf

from routing.balancing.replica.untracked import Untracked
from routing.contract.load_report import ReportedLoad


class LoadReportHistory:
    """What a replica has said of its own load, and what that was compared with."""

    __slots__ = (
        "at",
        "load",
        "mean_sum",
        "mean_weight",
        "noise_sum",
        "own",
        "read_at",
        "unread",
    )

    def __init__(self) -> None:
        self.load: ReportedLoad | None = None
        """The newest report."""
        self.at = -inf
        """When it was given."""
        self.unread = False
        """Whether it has figures that have not been looked at."""
        self.own: deque[tuple[float, int]] = deque()
        """What this host had in flight there at the last moments at which that was looked at."""
        self.read_at = 0.0
        """When the last report was given that was compared with own requests; 0: none was."""
        self.mean_sum = self.noise_sum = 0.0
        self.mean_weight = 0.0
        """Of the readings: their sum, that of their variances and their number, decayed by age."""

    @property
    def mean(self) -> float:
        """What others have there; below 0: it counts less than is known of. Only after a reading."""
        return self.mean_sum / self.mean_weight

    def __repr__(self) -> str:
        return f"<LoadReportHistory {self.load} at {self.at:.3f}>"


class LoadReports(Untracked):
    """Whether a replica is asked for reports, and what has come of it."""

    asked: bool = False
    """Whether requests ask the replica for its load."""
    history: LoadReportHistory | None = None
    """``None``: no report has come."""
    refused: int = 0
    """Reports that could not be read, since the worker started."""

    def __repr__(self) -> str:
        return f"<LoadReports {self.history}, {self.refused} refused>"
