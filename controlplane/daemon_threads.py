"""Daemon threads for blocking calls: one that hangs holds up neither the event loop nor the process's end."""

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


async def in_daemon_thread(call: Callable[[], T], *, within_s: float) -> T:
    """What it returns or raises. Raises TimeoutError; the call may go on."""
    loop, future = asyncio.get_running_loop(), asyncio.get_running_loop().create_future()
    _start("daemon-call", lambda: _answer(loop, future, call))
    async with asyncio.timeout(within_s):
        result: T = await future
    return result


class SerialThread:
    """One thread that does one thing after the other: of several writers, one at a time."""

    def __init__(self, name: str) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        _start(name, self._work)

    async def __call__(self, call: Callable[..., T], *arguments: Any) -> T:
        """What it returns or raises. One that has begun goes on when the caller is cancelled."""
        loop, future = asyncio.get_running_loop(), asyncio.get_running_loop().create_future()

        def work() -> None:
            if not future.cancelled():
                _answer(loop, future, lambda: call(*arguments))

        self._calls.put(work)
        result: T = await future
        return result

    def _work(self) -> None:
        while True:
            self._calls.get()()


def _start(name: str, target: Callable[[], None]) -> None:
    threading.Thread(target=target, name=name, daemon=True).start()


def _answer(
    loop: asyncio.AbstractEventLoop, future: "asyncio.Future[Any]", call: Callable[[], object]
) -> None:
    result: object = None
    failed: BaseException | None = None
    try:
        result = call()
    except BaseException as error:
        failed = error

    def settle() -> None:
        if future.done():
            return
        if failed is not None:
            future.set_exception(failed)
        else:
            future.set_result(result)

    try:
        loop.call_soon_threadsafe(settle)
    except RuntimeError:  # the loop has ended
        return
