"""Central FIFO queue, a reference and not a strategy: one queue for all servers, with full knowledge of them.

Theory. First come, first served, always in the fastest free slot; no request waits while a slot is free. Real
load balancers do not know speeds and free slots this well. It is no lower bound for the tail: it puts a long
request on a slow server if only that is free, where a rule that knows sizes would wait.
"""

from collections import deque
from collections.abc import Iterable

from routing.balancing.attempt.outcome import Outcome
from routing.simulator.engine import Engine
from routing.simulator.fixed_slots import FixedSlots
from routing.simulator.nodes import Node
from routing.simulator.requests import END_OF, FAILED, LATE, Request

NAME = "central_fifo"


class CentralFifo:
    """Replaces all proxies."""

    def __init__(self, engine: Engine, nodes: Iterable[Node]) -> None:
        """Raises ValueError in words where a server has no slots to be known."""
        self._engine = engine
        self._nodes = list(nodes)
        self._servers: list[tuple[Node, FixedSlots]] = []
        for node in self._nodes:
            server = node.server
            if not isinstance(server, FixedSlots):
                raise ValueError(f"{NAME} needs servers with a fixed number of slots; leave it out here")
            server.freed = self._freed
            self._servers.append((node, server))
        self._waiting: deque[Request] = deque()

    def arrive(self, request: Request) -> None:
        node = None if self._waiting else self._fastest_free()
        if node is None:
            self._waiting.append(request)
        else:
            self._send(request, node)
        if request.deadline_s < float("inf"):
            self._engine.at(self._engine.now + request.deadline_s, lambda: self._client_leaves(request))

    def _fastest_free(self) -> Node | None:
        best, speed = None, 0.0
        for node, server in self._servers:
            if server.speed > speed and len(server.running) < server.slots and node.up:
                best, speed = node, server.speed
        return best

    def _send(self, request: Request, node: Node) -> None:
        request.replica = node.name
        request.attempts += 1
        request.sent_s = self._engine.now
        node.begin(request, _ResponseRecorder(self, request), 0.0)

    def _freed(self) -> None:
        while self._waiting and (node := self._fastest_free()) is not None:
            self._send(self._waiting.popleft(), node)

    def ended(self, request: Request, now: float, outcome: Outcome) -> None:
        if outcome is Outcome.LOST:
            self._waiting.appendleft(request)
            self._freed()
            return
        request.first_byte_s = min(request.first_byte_s, now)
        request.ended_s = now
        request.end = END_OF.get(outcome, FAILED)

    def _client_leaves(self, request: Request) -> None:
        if request.end:
            return
        request.end = LATE
        request.ended_s = self._engine.now
        if request in self._waiting:
            self._waiting.remove(request)
        else:
            for _, server in self._servers:
                server.cancel(request)


class _ResponseRecorder:
    """Observes one request."""

    __slots__ = ("_queue", "_request")

    def __init__(self, queue: CentralFifo, request: Request) -> None:
        self._queue = queue
        self._request = request

    def first_byte(self, now: float) -> None:
        self._request.first_byte_s = now

    def tokens(self, now: float, count: int) -> None:
        self._request.tokens += count

    def ended(self, now: float, outcome: Outcome) -> None:
        self._queue.ended(self._request, now, outcome)
