"""Keep-alive connections of one proxy: opening one takes time, and an idle one is used again.

As :mod:`routing.http.upstream_pool` does it: the connection that was used last is taken first, and one that
has been idle for :data:`MAX_IDLE_S` is closed. A server that has started again has none of the old ones.
"""

from collections import defaultdict

from routing.simulator.nodes import Node

MAX_IDLE_S = 4.0
"""As :mod:`routing.proxy.settings` has it, which a test compares."""


class Connections:
    """Idle connections to each node."""

    def __init__(self, connect_s: float) -> None:
        """``connect_s``: what opening one takes, TLS included."""
        self.connect_s = connect_s
        self._idle: defaultdict[str, list[tuple[float, int]]] = defaultdict(list)
        """By the node's name: idle since when, and how often the node had been started by then."""

    def take(self, node: Node, now: float) -> float:
        """For one more request; seconds until it can be sent. Who takes one must give it back or close it."""
        idle = self._idle[node.name]
        while idle:
            since, starts = idle.pop()
            if starts == node.starts and now - since < MAX_IDLE_S:
                return 0.0
        return self.connect_s if node.up else 0.0

    def give_back(self, node: Node, now: float) -> None:
        """The response is complete, and the next request may use it."""
        self._idle[node.name].append((now, node.starts))
