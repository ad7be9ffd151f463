"""WebSocket consumers: the initial message, then the newest frame each second, while the user is signed in.

When no frame comes it is looked why: the fleet was deleted, or Redis does not answer. The page is told
of Redis by ``{"type": "silence", "redis": whether it answers}``, whenever that changes.

A page that reads slowly gets fewer frames, not later ones: of all that arrive while one is being
sent, only the last is kept. The page notices the gap by the frames' times and asks anew.

Who may see some fleets only gets the overview without the others; a role that is changed is seen with the
session's end.

Close codes: 4401 not signed in (any more), 4403 not for this account, 4404 no such fleet, 4408 open for as
long as a socket may be (the page opens a new one at once), 1013 try again later (Redis away).
"""

import asyncio
import logging
import random
from contextlib import suppress
from typing import Any

from channels.generic.websocket import AsyncWebsocketConsumer
from django.db import Error as DatabaseError

from controlplane.access.grants import NOTHING
from controlplane.alerts.live_counts import ALERTS_GROUP, seen_by
from controlplane.datastores import redis
from controlplane.telemetry import frames
from controlplane.telemetry.limited_frames import overview_of
from dashboard import session_watch, ws_auth
from dashboard.initial_message import (
    alerts_message,
    frame_message,
    initial_client_keys_message,
    initial_message,
    silence_message,
)

log = logging.getLogger(__name__)

NOT_SIGNED_IN = 4401
NOT_FOR_THIS_ACCOUNT = 4403
NO_SUCH_FLEET = 4404
TOO_OLD = 4408
TRY_AGAIN_LATER = 1013
SESSION_CHECK_S = 1.0
"""A socket outlives a logout, or the end of an account, by no longer than this."""
LONGEST_OPEN_S = 3600.0
"""A socket is closed at this age, or a tenth before it: pages that were opened together return one by one."""


SILENCE_S = 2.0
"""Frames are a second apart. After so long without one it is looked why."""


class LiveConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]  # channels has no types
    """Of all fleets, or of the one that the address names."""

    def __init__(self) -> None:
        super().__init__()
        self.newest: str | None = None
        self.arrived = asyncio.Event()
        self.tasks: list[asyncio.Task[None]] = []
        self.accepted = False
        self.redis_answers = True
        self.access = NOTHING
        self.fleets: frozenset[str] | None = frozenset()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Redis may be lost before :meth:`connect` and at any time after it, for the channel layer listens
        there. The page is told to try again, and does; the layer then opens a new connection."""
        try:
            await super().__call__(scope, receive, send)
        except redis.LOST:
            for task in self.tasks:
                task.cancel()
            if not self.accepted:
                await receive()
                await send({"type": "websocket.accept"})
            await send({"type": "websocket.close", "code": TRY_AGAIN_LATER})

    @property
    def fleet(self) -> str | None:
        name: str | None = self.scope["url_route"]["kwargs"].get("name")
        return name

    @property
    def group(self) -> str:
        return frames.OVERVIEW_GROUP if self.fleet is None else frames.fleet_group(self.fleet)

    async def initial_message(self, client: Any) -> str:
        """The first message. Raises redis.LOST."""
        return await initial_message(client, self.fleet, self.fleets)

    def may_see(self) -> bool:
        """Whether the page is for this account at all."""
        return True

    async def _read_access(self) -> int:
        """Why the socket must be closed, as its code; 0: it need not. Raises DatabaseError."""
        read = session_watch if self.tasks else ws_auth
        self.access = await read.access(self.scope["session"])
        if self.access == NOTHING:
            return NOT_SIGNED_IN
        if not self.may_see():
            return NOT_FOR_THIS_ACCOUNT
        self.fleets = await read.fleets_seen(self.access)
        if self.fleet is not None:
            return 0 if await read.fleet_seen(self.access, self.fleet) else NO_SUCH_FLEET
        return 0

    async def connect(self) -> None:
        if not ws_auth.same_origin(dict(self.scope["headers"])):
            await self.close()
            return
        await self.accept()
        self.accepted = True
        if code := await self._read_access():
            await self.close(code)
        else:
            await self._join()

    async def _join(self) -> None:
        """Joins before reading history: a frame of the meantime is then seen twice, never missed."""
        client: Any = redis.async_client()
        try:
            await self.channel_layer.group_add(self.group, self.channel_name)
            await self.channel_layer.group_add(ALERTS_GROUP, self.channel_name)
            await self.send(text_data=await self.initial_message(client))
        except redis.LOST:
            await self.close(TRY_AGAIN_LATER)
            return
        finally:
            await client.aclose()
        self.tasks = [asyncio.create_task(self._forward()), asyncio.create_task(self._watch_session())]

    async def live_frame(self, event: dict[str, Any]) -> None:
        """From the conductor, over the channel layer."""
        self.newest = event["data"]
        self.arrived.set()

    async def live_alerts(self, event: dict[str, Any]) -> None:
        """From who evaluates alerts: how many fire, by fleet."""
        await self.send(text_data=alerts_message(seen_by(event["data"], self.fleets)))

    async def _forward(self) -> None:
        while True:
            try:
                await asyncio.wait_for(self.arrived.wait(), SILENCE_S)
            except TimeoutError:
                if await self._fleet_is_gone():
                    await self.close(NO_SUCH_FLEET)
                    return
                await self._ask_redis()
                continue
            self.arrived.clear()
            self.redis_answers = True
            if self.newest is not None:
                await self.send(text_data=frame_message(self._shown(self.newest)))

    async def _fleet_is_gone(self) -> bool:
        """While the database is away nothing is known to be gone."""
        with suppress(DatabaseError):
            return self.fleet is not None and not await session_watch.fleet_seen(self.access, self.fleet)
        return False

    def _shown(self, frame: str) -> str:
        """What of a frame this account may see."""
        if self.fleet is not None or self.fleets is None:
            return frame
        return overview_of(frame, self.fleets).decode()

    async def _ask_redis(self) -> None:
        client: Any = redis.async_client()
        try:
            answers = bool(await asyncio.wait_for(client.ping(), redis.timeout_s()))
        except redis.LOST:
            answers = False
        finally:
            await client.aclose()
        if answers != self.redis_answers:
            self.redis_answers = answers
            await self.send(text_data=silence_message(answers))

    async def _watch_session(self) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + LONGEST_OPEN_S * random.uniform(0.9, 1.0)
        was_away = False
        while loop.time() < until:
            await asyncio.sleep(SESSION_CHECK_S)
            try:
                code = await self._read_access()
            except DatabaseError as error:
                # While the database is away no session can be ended in it either; the next turn asks again.
                if not was_away:
                    log.warning("the session of a live page cannot be checked, trying again: %s", error)
                was_away = True
                continue
            was_away = False
            if code:
                await self.close(code)
                return
        await self.close(TOO_OLD)

    async def disconnect(self, code: int) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        with suppress(*redis.LOST):
            await self.channel_layer.group_discard(self.group, self.channel_name)
            await self.channel_layer.group_discard(ALERTS_GROUP, self.channel_name)


class ClientKeysConsumer(LiveConsumer):
    """Of the client keys, for accounts whose role is for all fleets."""

    def may_see(self) -> bool:
        return self.access.everywhere is not None

    def _shown(self, frame: str) -> str:
        return frame

    @property
    def group(self) -> str:
        return frames.CLIENT_KEYS_GROUP

    async def initial_message(self, client: Any) -> str:
        return await initial_client_keys_message(client)
