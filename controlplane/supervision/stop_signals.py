"""Stop signals of ``up`` and ``down``: SIGTERM and SIGHUP let requests finish, Ctrl-C (SIGINT) is hasty."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
FOR_THE_PROXY = (signal.SIGUSR1, signal.SIGUSR2)
"""Rolling restart and live upgrade."""


class StopRequested(BaseException):
    """A signal asked to stop."""


class StopSignals:
    """What signals have asked for."""

    def __init__(self) -> None:
        self._hasty = False
        self._stopping = False
        self.pass_on: Callable[[int], None] = lambda number: None
        """Called with each signal that is for the proxy."""

    def is_hasty(self) -> bool:
        """Whether a Ctrl-C has come, before the stop or while it lasts."""
        return self._hasty

    def begin_stop(self) -> None:
        """From now on no signal raises StopRequested."""
        self._stopping = True

    def on_stop(self, number: int, _: FrameType | None) -> None:
        self._hasty = self._hasty or number == signal.SIGINT
        if not self._stopping:
            self._stopping = True
            raise StopRequested(number)

    def on_passed(self, number: int, _: FrameType | None) -> None:
        self.pass_on(number)


@contextmanager
def stop_signals() -> Iterator[StopSignals]:
    """Inside, the first SIGINT, SIGTERM or SIGHUP raises StopRequested once."""
    asked = StopSignals()
    before = {number: signal.signal(number, asked.on_stop) for number in STOPPING}
    before |= {number: signal.signal(number, asked.on_passed) for number in FOR_THE_PROXY}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
