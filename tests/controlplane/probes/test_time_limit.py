"""A probe's time limit counts only time in which the prober itself could run."""

import asyncio
import time

import pytest

from controlplane.probes.stall_meter import StallMeter
from controlplane.probes.time_limit import LONGEST, ProberLate, TimeLimit


def limited(limit_s: float, *, stall_s: float = 0.0, again: bool = False) -> tuple[str, float]:
    """What becomes of a probe that gets no answer, while the loop is held up (again and again); seconds."""

    async def wait() -> str:
        loop = asyncio.get_running_loop()
        meter = StallMeter(loop)
        meter.start()
        await asyncio.sleep(0.03)

        def hold_up() -> None:
            time.sleep(stall_s)
            if again:
                loop.call_later(0.001, hold_up)

        if stall_s:
            loop.call_soon(hold_up)
        try:
            async with TimeLimit(meter, limit_s):
                await asyncio.sleep(60)
        except TimeoutError:
            return "timeout"
        except ProberLate:
            return "late"
        raise AssertionError

    began = time.monotonic()
    return asyncio.run(wait()), time.monotonic() - began


def test_a_replica_that_is_silent_is_found_in_time() -> None:
    outcome, took_s = limited(0.2)
    assert outcome in ("timeout", "late")  # late: this machine was busy itself
    assert took_s >= 0.2


def test_time_in_which_the_loop_stood_still_is_given_back() -> None:
    outcome, took_s = limited(0.3, stall_s=0.4)
    assert outcome in ("timeout", "late")
    assert took_s >= 0.6


def test_a_prober_that_hardly_ran_learns_nothing() -> None:
    outcome, took_s = limited(0.1, stall_s=0.3, again=True)
    assert outcome == "late"
    assert took_s >= LONGEST * 0.1


def test_an_answer_that_came_while_the_loop_stood_still_counts() -> None:
    async def ask() -> bytes:
        loop = asyncio.get_running_loop()
        meter = StallMeter(loop)
        meter.start()

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"here")
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            try:
                async with TimeLimit(meter, 0.1):
                    loop.call_soon(time.sleep, 0.3)
                    return await reader.read()
            finally:
                writer.close()

    assert asyncio.run(ask()) == b"here"


def test_who_cancels_it_is_obeyed() -> None:
    async def check() -> None:
        meter = StallMeter(asyncio.get_running_loop())
        meter.start()

        async def wait() -> None:
            async with TimeLimit(meter, 60):
                await asyncio.sleep(60)

        task = asyncio.ensure_future(wait())
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(check())
