"""What a strategy is: a rule that picks one of several replicas, with parameters that describe themselves."""

from collections.abc import Sequence
from random import Random
from typing import ClassVar, Protocol

import msgspec

from routing.replica import Replica


class NoParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """For strategies that have nothing to set."""


class Strategy(Protocol):
    """One fleet's rule in one worker. Pure: time and randomness come as arguments.

    What a strategy remembers about a replica is kept in the :class:`Replica` itself, so that it is
    forgotten with it.
    """

    name: ClassVar[str]
    sentence: ClassVar[str]
    """One plain sentence for people who choose a strategy."""
    Parameters: ClassVar[type[msgspec.Struct]]
    """Fields with defaults; ``msgspec.Meta`` carries bounds and words."""

    def __init__(self, parameters: msgspec.Struct) -> None: ...

    def pick(self, candidates: Sequence[Replica], work: float, now: float, rng: Random) -> Replica:
        """Choose among one or more eligible replicas, each with a weight above 0.

        ``work``: estimated work of this request, above 0. ``now``: monotonic seconds. Counts nothing:
        whoever sends the request does that.
        """
        ...
