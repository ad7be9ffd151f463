"""Slices: work of many steps on the event loop, which serves what has come after each step."""

import asyncio
import gc
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")
NEVER = 1_000_000
"""Collections of the middle generation, after which a full one is due."""


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
def no_full_collection() -> Iterator[None]:
    """No full garbage collection while a large table is applied: the old one's replicas and the new one's are
    there together, and each slice that makes thousands of objects may start one. Young objects are collected
    as always, and the full collection comes afterwards, when the old replicas are gone."""
    young, middle, full = gc.get_threshold()
    gc.set_threshold(young, middle, NEVER)
    try:
        yield
    finally:
        gc.set_threshold(young, middle, full)
