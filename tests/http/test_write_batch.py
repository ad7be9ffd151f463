"""Writes of one turn of the loop: order, bounds, and a closed transport among them."""

import asyncio
from functools import partial

from routing.http.write_batch import LARGE, MOST, WriteBatch


def closed(data: bytes) -> None:
    raise RuntimeError("the handler is closed")


async def test_small_writes_wait_for_the_end_of_the_turn_and_keep_their_order() -> None:
    batch = WriteBatch(asyncio.get_running_loop())
    written: list[tuple[str, bytes]] = []
    for number in range(MOST - 1):
        batch.add(lambda data, to="ab"[number % 2]: written.append((to, data)), b"%d" % number)
    assert written == []
    assert len(batch) == MOST - 1
    await asyncio.sleep(0)
    assert written == [("ab"[number % 2], b"%d" % number) for number in range(MOST - 1)]
    assert not batch


async def test_a_turn_with_many_writes_does_not_hold_them_back() -> None:
    batch = WriteBatch(asyncio.get_running_loop())
    written: list[bytes] = []
    for _ in range(MOST):
        batch.add(written.append, b"x")
    assert len(written) == MOST


async def test_large_pieces_go_at_once_after_what_came_before() -> None:
    batch = WriteBatch(asyncio.get_running_loop())
    written: list[bytes] = []
    batch.add(written.append, b"head")
    batch.add(written.append, bytes(LARGE + 1))
    assert written == [b"head", bytes(LARGE + 1)]


async def test_a_closed_transport_does_not_stop_the_others() -> None:
    batch = WriteBatch(asyncio.get_running_loop())
    written: list[bytes] = []
    for write in (partial(closed), written.append):
        batch.add(write, b"x")
    batch.flush()
    assert written == [b"x"]


async def test_what_a_write_causes_is_written_too() -> None:
    batch = WriteBatch(asyncio.get_running_loop())
    written: list[bytes] = []

    def first(data: bytes) -> None:
        written.append(data)
        batch.add(written.append, b"second")

    batch.add(first, b"first")
    batch.flush()
    await asyncio.sleep(0)
    assert written == [b"first", b"second"]
