"""Async waits: for the first of several things, for all, or (by polling) for a condition."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

POLL_EVERY_S = 0.02


async def first_of(*waits: "Coroutine[Any, Any, Any] | asyncio.Future[Any]") -> None:
    """Wait until one is done; raise what it raised. Coroutines among them are cancelled then."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait, task in zip(waits, tasks, strict=True):
            if not isinstance(wait, asyncio.Future):
                task.cancel()
    for task in done:
        task.result()


async def all_of(tasks: Sequence["asyncio.Future[None]"]) -> None:
    """Wait until all are done or one fails: raise what it raised. Being cancelled cancels none of them."""
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    for task in done:
        task.result()


async def until(condition: Callable[[], bool]) -> None:
    """Look again and again, 50 times a second."""
    while not condition():  # noqa: ASYNC110 (for what comes once in a process's life)
        await asyncio.sleep(POLL_EVERY_S)
