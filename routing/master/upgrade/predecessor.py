"""Predecessor: the old master of a hot restart, as the new one sees it."""

import asyncio
import socket
from typing import Protocol

from routing.master.upgrade.handover_messages import (
    HandoverChannel,
    HandoverMessage,
    HandoverState,
    StateComplete,
    StickyIdBatch,
    SuccessorReady,
    TakeOver,
)
from routing.shared.sticky_ids import ReplicaRef

STATE_TIMEOUT_S = 10.0


class NewMaster(Protocol):
    """The receiving side of a handover. The master, which lies above this package, implements it."""

    def inherit(self, handover_state: HandoverState) -> None: ...
    def on_sticky_learned(self, name: str, replica_ref: ReplicaRef) -> None: ...


class HandoverFailed(Exception):
    """The old master is gone, or has not sent its state; the message says which."""


class Predecessor:
    """The old master. ``channel``: to it."""

    def __init__(self, channel: socket.socket, new_master: NewMaster) -> None:
        self._socket = channel
        self._new_master = new_master
        self._channel = HandoverChannel(self._on_message, self._closed)
        loop = asyncio.get_running_loop()
        self._complete: asyncio.Future[None] = loop.create_future()
        self._taken_over: asyncio.Future[TakeOver] = loop.create_future()
        self.gone = asyncio.Event()

    async def receive_state(self) -> None:
        """Receive its state. Raises :class:`HandoverFailed`."""
        loop = asyncio.get_running_loop()
        self._socket.setblocking(False)
        await loop.create_unix_connection(lambda: self._channel, sock=self._socket)
        try:
            async with asyncio.timeout(STATE_TIMEOUT_S):
                await self._complete
        except TimeoutError:
            raise HandoverFailed("the master whose place is to be taken does not say what it knows") from None

    async def take_over(self) -> TakeOver:
        """Send that this master is ready, and wait for ``TakeOver``. Raises :class:`HandoverFailed`."""
        self._channel.send(SuccessorReady())
        return await self._taken_over

    def _on_message(self, message: HandoverMessage) -> None:
        match message:
            case HandoverState():
                self._new_master.inherit(message)
            case StickyIdBatch():
                for name, replica_ref in message.places:
                    self._new_master.on_sticky_learned(name, replica_ref)
            case StateComplete():
                self._complete.set_result(None)
            case TakeOver():
                self._taken_over.set_result(message)
            case _:
                raise ValueError(f"the old master sent a {type(message).__name__}")

    def _closed(self) -> None:
        self.gone.set()
        for waiting in (self._complete, self._taken_over):
            if not waiting.done():
                waiting.set_exception(HandoverFailed("the master whose place is to be taken is gone"))
                # Marks it as retrieved: perhaps nothing waits for it any more.
                waiting.exception()
