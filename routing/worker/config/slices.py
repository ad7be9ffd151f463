"""Slices: work of many steps on the event loop, which serves what has come after each step."""

import asyncio
import gc
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")


async def in_slices(steps: Generator[None, None, T]) -> T:
    """What the generator returns. Each step should take a few milliseconds at most."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        await asyncio.sleep(0)


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Thousands of new objects would start a collection amid a slice, of many times its length."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
