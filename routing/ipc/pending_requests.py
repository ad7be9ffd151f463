"""Pending requests on a control channel: request ids, replies and timeouts."""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

_Answer = TypeVar("_Answer")


class PendingRequests(Generic[_Answer]):
    """Those of one requester. A request id is never used again, so that a late reply matches no later
    request."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._last = 0
        self._waiting: dict[int, asyncio.Future[_Answer | None]] = {}

    async def ask(self, send: Callable[[int], None]) -> _Answer | None:
        """``send`` is given the question's number. ``None``: no answer in time, or that was the answer."""
        self._last = number = self._last + 1
        answer: asyncio.Future[_Answer | None] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        send(number)
        try:
            async with asyncio.timeout(self._limit_s):
                return await answer
        except TimeoutError:
            return None
        finally:
            del self._waiting[number]

    def resolve(self, number: int, answer: _Answer | None) -> None:
        waiting = self._waiting.get(number)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)

    def resolve_all_empty(self) -> None:
        """Nobody is there to answer any more."""
        for number in self._waiting:
            self.resolve(number, None)
