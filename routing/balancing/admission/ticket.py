"""Ticket: an entry in a fleet's queue, and what whoever waits is told."""

from collections.abc import Sequence
from typing import Protocol

from routing.balancing.replica.device_memory import Device
from routing.balancing.replica.state import Replica


class Waiter(Protocol):
    """A request that waits."""

    def admit(self, now: float, patient: bool) -> bool:
        """Look for a slot; ``patient``: it may find each that is free too poor. False: it goes on waiting.
        True: it does not, because it has found one or because it has been answered otherwise."""

    def timed_out(self, now: float) -> None:
        """Its deadline has passed. It has left the queue."""

    def preempted(self, now: float) -> None:
        """Displaced from a full queue, by a request of a higher class or of a client whose turn is earlier.
        It has left the queue."""


class Ticket:
    """An entry in the queue."""

    __slots__ = (
        "charge",
        "client",
        "deadline",
        "here",
        "needs",
        "particular",
        "rank",
        "reserved",
        "since",
        "start",
        "target",
        "waiter",
        "work",
    )

    def __init__(
        self,
        waiter: Waiter,
        rank: int,
        since: float,
        deadline: float,
        work: float = 1.0,
        particular: bool = False,
        client: int = 0,
        charge: float = 0.0,
        needs: tuple[str, ...] = (),
    ) -> None:
        self.waiter = waiter
        self.rank = rank
        """Of its class; 0 is served first."""
        self.since = since
        self.deadline = deadline
        self.work = work
        """Estimated units, for whoever picks its replica."""
        self.particular = particular
        """Whether not every replica will do."""
        self.client = client
        """Number of the client that has its turn when this is served
        (:func:`routing.balancing.replica.client_source.client_number`)."""
        self.charge = charge or work
        """What its client is charged for it: work, divided by the client's weight."""
        self.needs = needs
        """Adapters that its replica is to serve and that not every replica serves."""
        self.start = 0.0
        """Its client's tag when it was last first, see :mod:`routing.balancing.admission.fair_order`."""
        self.target: Replica | None = None
        """The replica that it would best wait for, which counts it; ``None``: any."""
        self.reserved: Sequence[Device] = ()
        """Devices on which memory is kept free for it."""
        self.here = True

    def yields_to_others(self, now: float) -> bool:
        """Whether others go before it, where it finds no slot itself."""
        return self.particular or bool(self.reserved) or (self.target is not None and now < self.half_time)

    @property
    def half_time(self) -> float:
        """When half of its time is over."""
        return (self.since + self.deadline) / 2

    def __lt__(self, other: "Ticket") -> bool:
        """Of the same class and client."""
        return self.since < other.since

    def __repr__(self) -> str:
        return f"<Ticket of class {self.rank} since {self.since:.3f} until {self.deadline:.3f}>"
