"""What a worker tells others of responses that replicas keep, and how it asks for those it does not know.

The parent remembers what all workers of the host have learned, also when one of them dies. Under a control
plane so does Redis, for the proxies of other hosts. Who is asked answers soon; else the id is unknown.
"""

from collections.abc import Callable
from typing import Protocol

from routing.processes.control_channel import KeptBy, Learned, Message, WhoKeeps
from routing.processes.questions import Questions
from routing.replica_state.kept_ids import Place

ANSWER_LIMIT_S = 0.05


class Wider(Protocol):
    """Beyond this host."""

    def keep(self, name: str, place: Place) -> None:
        """Never waits and raises nothing."""

    async def find(self, name: str) -> Place | None:
        """Comes to an end soon, and raises nothing."""
        ...


class KeptElsewhere:
    """One worker's."""

    def __init__(self, send: Callable[[Message], None]) -> None:
        """``send``: to the parent."""
        self.wider: Wider | None = None
        self._send = send
        self._questions: Questions[Place] = Questions(ANSWER_LIMIT_S)

    def share(self, name: str, place: Place) -> None:
        self._send(Learned(name=name, place=place))
        if self.wider is not None:
            self.wider.keep(name, place)

    async def find(self, name: str) -> Place | None:
        place = await self._questions.ask(lambda number: self._send(WhoKeeps(question=number, name=name)))
        if place is None and self.wider is not None:
            place = await self.wider.find(name)
            if place is not None:
                # So that no other worker has to ask as far.
                self._send(Learned(name=name, place=place))
        return place

    def answered(self, answer: KeptBy) -> None:
        self._questions.answered(answer.question, answer.place)
