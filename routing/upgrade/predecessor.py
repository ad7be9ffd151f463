"""The parent whose place this one takes."""

import asyncio
import socket
from typing import Protocol

from routing.replica_state.kept_ids import Place
from routing.upgrade.letters import Complete, Estate, HandoverChannel, Ids, Letter, Ready, TakeOver

MEETS_WITHIN_S = 10.0


class Heir(Protocol):
    """Who inherits."""

    def inherit(self, estate: Estate) -> None: ...
    def learned(self, name: str, place: Place) -> None: ...


class HandoverFailed(Exception):
    """The old parent is gone, or has told too little; the message says which."""


class Predecessor:
    """As seen by its successor. ``channel``: to it."""

    def __init__(self, channel: socket.socket, heir: Heir) -> None:
        self._socket = channel
        self._heir = heir
        self._channel = HandoverChannel(self._received, self._closed)
        loop = asyncio.get_running_loop()
        self._complete: asyncio.Future[None] = loop.create_future()
        self._taken_over: asyncio.Future[TakeOver] = loop.create_future()
        self.gone = asyncio.Event()

    async def meet(self) -> None:
        """Inherit what it knows. Raises :class:`HandoverFailed`."""
        loop = asyncio.get_running_loop()
        self._socket.setblocking(False)
        await loop.create_unix_connection(lambda: self._channel, sock=self._socket)
        try:
            async with asyncio.timeout(MEETS_WITHIN_S):
                await self._complete
        except TimeoutError:
            raise HandoverFailed("the parent whose place is to be taken does not say what it knows") from None

    async def take_over(self) -> TakeOver:
        """Say that this proxy is ready, and wait for the word. Raises :class:`HandoverFailed`."""
        self._channel.send(Ready())
        return await self._taken_over

    def _received(self, letter: Letter) -> None:
        match letter:
            case Estate():
                self._heir.inherit(letter)
            case Ids():
                for name, place in letter.places:
                    self._heir.learned(name, place)
            case Complete():
                self._complete.set_result(None)
            case TakeOver():
                self._taken_over.set_result(letter)
            case _:
                raise ValueError(f"the old parent sent a {type(letter).__name__}")

    def _closed(self) -> None:
        self.gone.set()
        for waiting in (self._complete, self._taken_over):
            if not waiting.done():
                waiting.set_exception(HandoverFailed("the parent whose place is to be taken is gone"))
                # Nobody may be waiting for it any more.
                waiting.exception()
