"""Writes of one turn of the loop: order, bounds, and a closed transport among them."""

import asyncio
from functools import partial

import pytest

from routing.http import write_batch
from routing.http.write_batch import APART_S, LARGE, MOST, WriteBatch
from tests.clock import Clock


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(write_batch, "monotonic", clock)
    return clock


async def quiet_batch() -> tuple[WriteBatch, list[bytes]]:
    """After a write that came alone."""
    batch, written = WriteBatch(asyncio.get_running_loop()), list[bytes]()
    batch.add(written.append, b"alone")
    await asyncio.sleep(0)
    assert written == [b"alone"]
    return batch, written


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


async def test_on_a_quiet_loop_a_write_is_made_at_once(clock: Clock) -> None:
    batch, written = await quiet_batch()
    for number in range(3):
        clock.now += 2 * APART_S
        batch.add(written.append, b"%d" % number)
        assert written[-1] == b"%d" % number
        assert not batch


async def test_writes_that_come_close_together_wait_for_the_end_of_the_turn(clock: Clock) -> None:
    batch, written = await quiet_batch()
    clock.now += 2 * APART_S
    batch.add(written.append, b"first")
    for number in range(3):
        clock.now += APART_S / 2
        batch.add(written.append, b"%d" % number)
    assert written == [b"alone", b"first"]
    await asyncio.sleep(0)
    assert written == [b"alone", b"first", b"0", b"1", b"2"]


async def test_after_a_turn_with_several_writes_the_next_one_waits_again(clock: Clock) -> None:
    batch, written = await quiet_batch()
    batch.add(written.append, b"first")
    batch.add(written.append, b"second")
    await asyncio.sleep(0)
    clock.now += 2 * APART_S
    batch.add(written.append, b"third")
    assert written == [b"alone", b"first", b"second"]
    await asyncio.sleep(0)
    clock.now += 2 * APART_S
    batch.add(written.append, b"fourth")
    assert written[-2:] == [b"third", b"fourth"]


async def test_a_closed_transport_is_as_quiet_at_once_as_later(clock: Clock) -> None:
    batch, written = await quiet_batch()
    clock.now += 2 * APART_S
    batch.add(closed, b"x")
    clock.now += 2 * APART_S
    batch.add(written.append, b"next")
    assert written == [b"alone", b"next"]
