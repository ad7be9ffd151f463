"""Network node of a server: adds network delay, and may be down or respond with errors at once.

Faults happen to the node and not to the server in it, so that every kind of server can have them.
"""

from functools import partial

from routing.balancing.attempt.outcome import Outcome
from routing.simulator.engine import Engine
from routing.simulator.requests import Request
from routing.simulator.servers import ResponseListener, ServerModel
from routing.simulator.warm_up import WarmUp

REFUSED_AFTER_S = 0.0002
"""How long it takes to learn that the connection is refused."""


class Node:
    """One replica's machine."""

    def __init__(
        self,
        engine: Engine,
        name: str,
        server: ServerModel,
        site: str = "",
        warm_up: WarmUp | None = None,
    ) -> None:
        """``warm_up``: how its server begins, now and after a restart; ``None``: at full speed."""
        self._engine = engine
        self.name = name
        self.server = server
        self.site = site
        self.up = True
        self.fails_after_s: float | None = None
        self.starts = 0
        """How often its server has been started."""
        self._warm_up = warm_up
        self._started()

    def begin(self, request: Request, listener: ResponseListener, away_s: float) -> None:
        """``away_s``: network delay from the sender, in one direction."""
        if away_s:
            now = self._engine.now
            self._engine.at(
                now + away_s, partial(self._arrive, request, _Far(self._engine, listener, away_s))
            )
        else:
            self._arrive(request, listener)

    def cancel(self, request: Request, away_s: float) -> None:
        """The sender has left and ignores later events."""
        if away_s:
            self._engine.at(self._engine.now + away_s, partial(self.server.cancel, request))
        else:
            self.server.cancel(request)

    def _arrive(self, request: Request, listener: ResponseListener) -> None:
        if not self.up:
            self._answer(listener, Outcome.REFUSED, REFUSED_AFTER_S)
        elif self.fails_after_s is not None:
            self._answer(listener, Outcome.FAILED, self.fails_after_s)
        else:
            self.server.begin(request, listener)

    def _answer(self, listener: ResponseListener, outcome: Outcome, after_s: float) -> None:
        now = self._engine.now + after_s
        self._engine.at(now, partial(listener.ended, now, outcome))

    def crash(self) -> None:
        """Its requests are lost; from now on it refuses connections."""
        self.up = False
        for listener in self.server.drop():
            listener.ended(self._engine.now, Outcome.LOST)

    def restart(self) -> None:
        """It is there again, and has nothing to do."""
        self.up = True
        self._started()

    def _started(self) -> None:
        self.starts += 1
        if self._warm_up is not None:
            self.server.warm_up(self._warm_up)

    def fail_after(self, seconds: float | None) -> None:
        """From now on every request gets an error after this many seconds; ``None``: no longer."""
        self.fails_after_s = seconds

    def __repr__(self) -> str:
        return f"<Node {self.name} {'up' if self.up else 'down'} {self.server!r}>"


class _Far:
    """Passes on every event with a delay."""

    __slots__ = ("_away_s", "_engine", "_listener")

    def __init__(self, engine: Engine, listener: ResponseListener, away_s: float) -> None:
        self._engine = engine
        self._listener = listener
        self._away_s = away_s

    def first_byte(self, now: float) -> None:
        now += self._away_s
        self._engine.at(now, partial(self._listener.first_byte, now))

    def tokens(self, now: float, count: int) -> None:
        now += self._away_s
        self._engine.at(now, partial(self._listener.tokens, now, count))

    def ended(self, now: float, outcome: Outcome) -> None:
        now += self._away_s
        self._engine.at(now, partial(self._listener.ended, now, outcome))
