"""Strategy: a rule that picks one of several replicas, with parameters that describe themselves."""

from collections.abc import Callable, Generator, Iterable, Sequence
from random import Random
from typing import ClassVar, Literal, NamedTuple, Protocol, runtime_checkable

import msgspec

from routing.balancing.affinity import Affinity
from routing.balancing.replica.state import Replica
from routing.shared.prefix_memory import PrefixMemory


class NoParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """For strategies that have nothing to set."""


class AnswerMemory(NamedTuple):
    """What a strategy that goes by response times wants to have kept of them."""

    tau_s: float
    """Memory in seconds."""
    kept: Literal["mean", "peak", "tail", "by load"]
    """``mean``: ``Replica.answer_s`` is their decayed mean. ``peak``: it takes a rise at once, and a fall
    decays. ``tail``: ``Replica.favour`` follows the slowest of them. ``by load``: ``Replica.speed_by_load``
    follows them apart by load."""


class Strategy(Protocol):
    """One fleet's rule in one worker. It has no clock, no randomness and no I/O of its own: these come as
    arguments.

    What a strategy remembers about a replica is kept in the :class:`Replica` itself, so that it is
    forgotten with it. What it builds from the list of candidates it may keep for as long as it is given that
    list.
    """

    name: ClassVar[str]
    sentence: ClassVar[str]
    """One plain sentence for people who choose a strategy."""
    Parameters: ClassVar[type[msgspec.Struct]]
    """Fields with defaults; ``msgspec.Meta`` carries bounds and words."""

    weighs_waiting: ClassVar[bool]
    """Whether it may choose a replica without a free slot although others have one, because it expects the
    request to be done sooner there; the request then waits. Others get only replicas that have a slot."""

    memory: AnswerMemory | None
    """``None``: the strategy does not go by response times, and none are kept."""

    affinity: Affinity | None
    """What it reads in a request (stickiness). Only a :class:`KeyedStrategy` has any; for the others no
    request is read."""

    def __init__(self, parameters: msgspec.Struct) -> None: ...

    def pick(self, candidates: Sequence[Replica], work: float, now: float, rng: Random) -> Replica:
        """Choose among one or more eligible replicas, each with a weight above 0.

        ``work``: estimated work of this request, above 0. ``now``: monotonic seconds. Counts nothing:
        whoever sends the request does that.
        """
        ...


@runtime_checkable
class PreparingStrategy(Protocol):
    """One that derives much from the list of a pool's replicas."""

    def prepare(self, members: Sequence[tuple[Replica, float]]) -> Generator[None, None, Callable[[], None]]:
        """Before the pool has these replicas with these weights: derive it, in steps of a millisecond or so,
        between which requests are picked as before. Returns what puts it into use."""
        ...


@runtime_checkable
class PrefixStrategy(Protocol):
    """One that remembers which prompts replicas were sent."""

    affinity: Affinity | None

    def remember_in(self, memory: PrefixMemory, fleet: str, replicas: int) -> None:
        """Remember them there, together with whoever else does. ``replicas``: of the fleet, which share the
        memory that it may use. Called before the first pick, and whenever their number may have changed."""

    def learn(self, replica: Replica, hashes: Sequence[int]) -> None:
        """Another host has sent that replica prompts with these hashes, under the same affinity."""


class KeyedStrategy(Strategy, Protocol):
    """One that sends requests of the same key to the same replica, as far as load allows. One of another
    package needs neither :meth:`neighbours` nor :meth:`pick_among`."""

    home: Replica | None
    """Where the key of the last :meth:`pick_near` leads if load is left aside; ``None``: nowhere yet."""

    def pick_near(
        self, candidates: Sequence[Replica], work: float, now: float, rng: Random, key: tuple[int, ...]
    ) -> Replica:
        """As :meth:`Strategy.pick`, for a request with this key: what :meth:`Affinity.hashes` made of it."""
        ...

    def remember(self, replica: Replica, key: tuple[int, ...]) -> None:
        """A request with this key is on its way to that replica, whoever picked it."""
        ...

    def neighbours(
        self, key: tuple[int, ...], with_slot: Callable[[Iterable[Replica]], list[Replica]]
    ) -> list[Replica] | None:
        """Of a large pool, some near to where the last :meth:`pick_near` with this key has led, those that
        have a slot; ``with_slot`` tells which have one. ``None``: it is to be given all that have."""
        ...

    def pick_among(
        self, found: Sequence[Replica], work: float, now: float, rng: Random, key: tuple[int, ...]
    ) -> Replica:
        """As the last :meth:`pick_near` with this key, but only among these of its candidates, one or more:
        they have a slot."""
        ...
