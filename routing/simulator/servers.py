"""Server model: the interface of a simulated server, and of the listener that gets its response."""

from typing import Protocol

from routing.balancing.attempt.outcome import Outcome
from routing.simulator.requests import Request
from routing.simulator.warm_up import WarmUp


class ResponseListener(Protocol):
    """Whoever sent a request: hears of its answer, in this order, until ``ended`` or ``cancel``."""

    def first_byte(self, now: float) -> None:
        """Where an answer comes in pieces: the first of them. Not called where it comes all at once."""

    def tokens(self, now: float, count: int) -> None:
        """So many output tokens more."""

    def ended(self, now: float, outcome: Outcome) -> None:
        """The last byte, or how it came to nothing."""


class ServerModel(Protocol):
    """A model of one replica's machine."""

    def begin(self, request: Request, listener: ResponseListener) -> None:
        """Serve it, or have it wait in the server's own queue."""

    def cancel(self, request: Request) -> None:
        """Its client has left: it is heard of no more. One that is not here (any more) is let be."""

    def drop(self) -> list[ResponseListener]:
        """The machine is lost, and with it all that it worked on: who would have heard of that."""

    def set_speed(self, speed: float) -> None:
        """From now on it is so fast, what it works on included."""

    def warm_up(self, warm_up: WarmUp) -> None:
        """It has just started: its first answers are slow."""
