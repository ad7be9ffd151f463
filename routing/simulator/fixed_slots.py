"""Server with a fixed number of slots, each of the same speed, and a FIFO queue.

Theory. The G/G/C queue, first come, first served. Slots are independent: a request of ``s`` seconds takes
``s / speed``. A change of speed also applies to the rest of the running requests.
"""

from collections import deque
from collections.abc import Callable

from routing.balancing.attempt.outcome import Outcome
from routing.simulator.engine import Engine
from routing.simulator.requests import Request
from routing.simulator.servers import ResponseListener
from routing.simulator.warm_up import WarmUp


class _Job:
    """One request in a slot. Replaced when the speed changes: what was planned for the old one is void."""

    __slots__ = ("_server", "left_s", "listener", "request", "since")

    def __init__(
        self, server: "FixedSlots", request: Request, listener: ResponseListener, left_s: float, since: float
    ) -> None:
        self._server = server
        self.request = request
        self.listener = listener
        self.left_s = left_s
        """At speed 1."""
        self.since = since

    def __call__(self) -> None:
        self._server.done(self)


class FixedSlots:
    """``slots`` requests at once, each at ``speed``; a queue of its own without bound."""

    def __init__(self, engine: Engine, speed: float, slots: int) -> None:
        self._engine = engine
        self.speed = speed
        self.slots = slots
        self.running: dict[Request, _Job] = {}
        self.queue: deque[tuple[Request, ResponseListener]] = deque()
        self.freed: Callable[[], None] | None = None
        """Called when a slot has become free: for references that know all."""
        self._cold = 0
        """Requests that are still to be slowed; each takes ``1 / _cold_factor`` times as long."""
        self._cold_factor = 1.0

    def begin(self, request: Request, listener: ResponseListener) -> None:
        if len(self.running) < self.slots:
            self._begin(request, listener)
        else:
            self.queue.append((request, listener))

    def _begin(self, request: Request, listener: ResponseListener) -> None:
        seconds = request.seconds
        if self._cold:
            self._cold -= 1
            seconds /= self._cold_factor
        self._start(request, listener, seconds)

    def _start(self, request: Request, listener: ResponseListener, left_s: float) -> None:
        engine = self._engine
        self.running[request] = job = _Job(self, request, listener, left_s, engine.now)
        engine.at(engine.now + left_s / self.speed, job)

    def done(self, job: _Job) -> None:
        """One that was planned is through, unless things have changed since."""
        request = job.request
        if self.running.get(request) is job:
            del self.running[request]
            self._next()
            job.listener.ended(self._engine.now, Outcome.SUCCESS)

    def _next(self) -> None:
        if self.queue:
            self._begin(*self.queue.popleft())
        elif self.freed is not None:
            self.freed()

    def cancel(self, request: Request) -> None:
        if self.running.pop(request, None) is not None:
            self._next()
        else:
            self.queue = deque(entry for entry in self.queue if entry[0] is not request)

    def drop(self) -> list[ResponseListener]:
        lost = [job.listener for job in self.running.values()]
        lost += [listener for _, listener in self.queue]
        self.running.clear()
        self.queue.clear()
        return lost

    def set_speed(self, speed: float) -> None:
        now, old = self._engine.now, self.speed
        self.speed = speed
        for job in list(self.running.values()):
            self._start(job.request, job.listener, job.left_s - (now - job.since) * old)

    def warm_up(self, warm_up: WarmUp) -> None:
        self._cold, self._cold_factor = warm_up

    def __repr__(self) -> str:
        return (
            f"<FixedSlots {len(self.running)} of {self.slots}, {len(self.queue)} wait, speed {self.speed:g}>"
        )
