"""Runner of the conductor process: a thread that ticks, and an event loop for frames and signals.

The thread is a daemon: a tick that hangs in a database must not keep the process from ending.
"""

import asyncio
import logging
import signal
import threading
import time
from collections.abc import Callable

from channels.layers import get_channel_layer

from controlplane.telemetry.conductor import Conductor, Messages

TICK_S = 1.0
END_WITHIN_S = 1.0
"""How long a tick in progress is waited for when the process is told to end. It is to be over within 2 s, and
on a busy machine the interpreter takes some of that."""
CANCEL_WITHIN_S = 0.2
"""How long the sender is waited for. Its client may lose a cancellation; ``asyncio.run`` then cancels it once
more."""

logger = logging.getLogger(__name__)


def run(conductor: Conductor) -> None:
    """Tick until SIGTERM or SIGINT."""
    asyncio.run(_run(conductor))


async def _run(conductor: Conductor) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    sender = _Sender()
    stopping, ended = threading.Event(), asyncio.Event()

    def deliver(messages: Messages) -> None:
        loop.call_soon_threadsafe(sender.offer, messages)

    def ticks() -> None:
        try:
            _tick_until(stopping, conductor, deliver)
        finally:
            loop.call_soon_threadsafe(ended.set)

    threading.Thread(target=ticks, name="conductor-ticks", daemon=True).start()
    sending = asyncio.create_task(sender.run())
    await stop.wait()
    stopping.set()
    try:
        async with asyncio.timeout(END_WITHIN_S):
            await ended.wait()
    except TimeoutError:
        logger.warning("stopping in the middle of a tick")
    sending.cancel()
    await asyncio.wait([sending], timeout=CANCEL_WITHIN_S)


def _tick_until(stopping: threading.Event, conductor: Conductor, deliver: Callable[[Messages], None]) -> None:
    due = time.monotonic()
    while not stopping.is_set():
        try:
            messages = conductor.tick()
            if messages:
                deliver(messages)
        except Exception:
            logger.exception("a tick failed; the next one tries again")
        # A tick that took too long is followed at once, and those it overran are left out.
        due = max(due + TICK_S, time.monotonic())
        stopping.wait(due - time.monotonic())
    conductor.end()


class _Sender:
    """Sends the newest frames to the open pages; a slow channel layer costs frames, not ticks."""

    def __init__(self) -> None:
        self._newest: Messages = []
        self._offered = asyncio.Event()
        self._away = False

    def offer(self, messages: Messages) -> None:
        self._newest = messages
        self._offered.set()

    async def run(self) -> None:
        layer = get_channel_layer()
        while True:
            await self._offered.wait()
            self._offered.clear()
            try:
                for group, frame in self._newest:
                    await layer.group_send(group, {"type": "live.frame", "data": frame})
                self._away = False
            except Exception as error:
                if not self._away:
                    logger.warning("open pages get no frames: %s", error)
                self._away = True
