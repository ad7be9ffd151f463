"""Event loop of the simulation: events in virtual time, in order.

A heap of ``(time, number, call)``. Events at the same time run in the order in which they were scheduled, so
a run with the same seed is the same run. Time jumps from one event to the next.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from math import inf


class Engine:
    """A clock that jumps. Times are seconds since the run began."""

    __slots__ = ("_heap", "_number", "events", "now")

    def __init__(self) -> None:
        self.now = 0.0
        self.events = 0
        """Events run so far."""
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0

    def at(self, time_s: float, call: Callable[[], None]) -> None:
        """Call that at this time, or now if it has passed. Nothing is taken back: what may be out of date by
        then finds that out itself."""
        self._number = number = self._number + 1
        heappush(self._heap, (time_s, number, call))

    def run(self, until_s: float = inf) -> None:
        """Until nothing is left to do, or up to this time."""
        heap = self._heap
        events = 0
        while heap and heap[0][0] <= until_s:
            time_s, _, call = heappop(heap)
            if time_s > self.now:
                self.now = time_s
            events += 1
            call()
        self.events += events
        if until_s < inf:
            self.now = max(self.now, until_s)

    def __repr__(self) -> str:
        return f"<Engine at {self.now:.6f} s, {len(self._heap)} to come>"
