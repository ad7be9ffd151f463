"""Each failing mode of one of four replicas, for as long and at the rate that ``make test-faults`` is for."""

import asyncio
import math
import signal
import time
from collections.abc import Callable

import pytest

from routing.contract.policy import Ejection, Policy, Timeouts
from tests.faults.amounts import FOR_S, RATE, STRICT
from tests.faults.bench import REPLICAS, Bench, Replica, executed_twice, failures, listed, unexcused
from tests.faults.load import Load, Result

WARM_S = 12.0
"""By then the fleet's 99th percentile is known."""
STALL_S = 8.0
POLICY = Policy(timeouts=Timeouts(connect_s=1.0, stall_s=STALL_S, first_byte_s=30.0, total_s=35.0))
SLOWER_MACHINE = 1.0 if STRICT else 5.0
WRONG_SHARE, SILENT_SHARE = 0.005, 0.01
"""Of all requests, where a replica answers wrongly; where it begins or accepts what it never ends."""

WITHOUT_ANSWERS_S, AFTER_S = 20.0, 14.0
CHATS = ("safe", "stream")
FAIR_FROM = 0.75
"""Of its part by weight: what a replica gets that is as any other, give or take."""

pytestmark = [pytest.mark.system, pytest.mark.any_database, pytest.mark.faults, pytest.mark.timeout(600)]

OUT_WITHIN_S = {
    "refuse": 1.0,
    "reset": 5.0,
    "half_close": 5.0,
    "mid_body": 5.0,
    "instant_500": 5.0,
    "not_http": 5.0,
    "dribble": STALL_S + 2.0,
    "blackhole": STALL_S + 2.0,
}
"""Seconds from a mode's beginning."""


def between(results: list[Result], begin: float, end: float) -> list[Result]:
    return [one for one in results if begin <= one.began < end]


def share_of(results: list[Result], replica: Replica) -> float:
    return sum(one.replica == replica.name for one in results) / max(1, len(results))


def fair_again_s(results: list[Result], replica: Replica, since: float, within_s: float) -> float:
    """Seconds until the two seconds begin in which the replica has its share again; infinite: none do."""
    for tenth in range(round((within_s - 2.0) * 10)):
        begin = since + tenth / 10
        if share_of(between(results, begin, begin + 2.0), replica) >= FAIR_FROM / REPLICAS:
            return tenth / 10
    return math.inf


@pytest.mark.parametrize("mode", OUT_WITHIN_S)
async def test_a_failing_mode(start_bench: Callable[[Policy], Bench], mode: str) -> None:
    """Out in time, with its reason; back within 5 s; no failure that must not be."""
    bench = await asyncio.to_thread(start_bench, POLICY)
    bad = bench.replicas[0]
    async with Load(bench.proxy.port, RATE) as load:
        await asyncio.sleep(WARM_S)
        began = time.monotonic()
        faults = [(began, mode)]
        bad.mode(mode)
        out_s = await bench.until(bool, bad, SLOWER_MACHINE * OUT_WITHIN_S[mode])
        why = await bench.reasons(bad)
        await asyncio.sleep(max(0.0, began + FOR_S - time.monotonic()))
        faults.append((time.monotonic(), "healed"))
        bad.mode("pass")
        back_s = await bench.until(lambda said: not said, bad, SLOWER_MACHINE * 5.0)
        await asyncio.sleep(2.0)
    told = (
        f"{mode}: out after {out_s:.2f} s ({why}), back after {back_s:.2f} s\n{listed(load.results, faults)}"
    )
    print(told)
    assert not unexcused(load.results), told
    assert not executed_twice(bench, load.results), told
    share = SILENT_SHARE if mode in ("dribble", "blackhole") else WRONG_SHARE
    assert len(failures(load.results)) <= share * len(load.results), told


@pytest.mark.parametrize("mode", ["latency", "slice"])
async def test_a_slow_mode_fails_nothing(start_bench: Callable[[Policy], Bench], mode: str) -> None:
    bench = await asyncio.to_thread(start_bench, POLICY)
    async with Load(bench.proxy.port, RATE) as load:
        await asyncio.sleep(2.0)
        faults = [(time.monotonic(), mode)]
        bench.replicas[0].mode(mode)
        await asyncio.sleep(FOR_S / 2)
        bench.replicas[0].mode("pass")
    told = listed(load.results, faults)
    print(told)
    assert not failures(load.results), told


async def test_a_hang_that_heals(start_bench: Callable[[Policy], Bench]) -> None:
    """Stopped for 15 s: asked again within 5 s, with its share soon after, and never out for what failed
    before."""
    bench = await asyncio.to_thread(start_bench, POLICY)
    hung = bench.replicas[0]
    async with Load(bench.proxy.port, RATE) as load:
        await asyncio.sleep(WARM_S)
        faults = [(time.monotonic(), "stopped")]
        hung.signal(signal.SIGSTOP)
        await asyncio.sleep(15.0)
        before = len(hung.executed.read_text().split())
        faults.append((time.monotonic(), "healed"))
        hung.signal(signal.SIGCONT)
        await asyncio.sleep(1.0)
        at_once = len(hung.executed.read_text().split())
        healed = faults[-1][0]
        while len(hung.executed.read_text().split()) <= at_once:
            assert time.monotonic() - healed < SLOWER_MACHINE * 5.0, await bench.reasons(hung)
            await asyncio.sleep(0.05)
        first_s = time.monotonic() - healed
        await bench.until(lambda said: not said, hung, SLOWER_MACHINE * 5.0)
        outs = 0
        for _ in range(60):
            outs += bool(await bench.reasons(hung))
            await asyncio.sleep(0.5)
    fair_s = fair_again_s(load.results, hung, healed, 30.0)
    told = (
        f"asked again after {first_s:.1f} s ({at_once - before} at once), fair share after {fair_s:.1f} s\n"
        f"{listed(load.results, faults)}"
    )
    print(told)
    assert outs == 0, told
    assert fair_s <= SLOWER_MACHINE * 5.0, told
    assert not unexcused(load.results), told
    assert not executed_twice(bench, load.results), told


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("rate", [100.0, 200.0])
async def test_a_body_that_is_no_answer(start_bench: Callable[..., Bench], rate: float, workers: int) -> None:
    """At once, with 200: at most one in a hundred requests gets it, and it is out, with its reason."""
    bench = await asyncio.to_thread(start_bench, POLICY, workers=workers)
    bad = bench.replicas[0]
    async with Load(bench.proxy.port, rate, CHATS) as load:
        await asyncio.sleep(WARM_S)
        faults = [(time.monotonic(), "no answers")]
        bad.mode("instant_nothing")
        out_s = await bench.until(bool, bad, SLOWER_MACHINE * 3.0)
        why = await bench.reasons(bad)
        await asyncio.sleep(max(0.0, faults[0][0] + WITHOUT_ANSWERS_S - time.monotonic()))
        faults.append((time.monotonic(), "healed"))
        bad.mode("pass")
        await asyncio.sleep(AFTER_S)
    began, healed = faults[0][0], faults[1][0]
    wrong = [one for one in load.results if one.ok and not one.answers]
    during = between(load.results, began, healed)
    late = between(load.results, began + 3.0, healed)
    fair_s = fair_again_s(load.results, bad, healed, AFTER_S)
    told = (
        f"{rate:g} a second, {workers} workers: out after {out_s:.2f} s ({why}); {len(wrong)} of "
        f"{len(during)} without an answer; share from 3 s on {share_of(late, bad):.2%}; "
        f"fair again after {fair_s:.1f} s\n"
        f"{listed(load.results, faults)}"
    )
    print(told)
    assert "no answers of their protocol" in why or "another worker" in why, told
    assert not failures(load.results), told
    assert len(wrong) <= 0.01 * len(during), told
    assert share_of(late, bad) <= 0.01, told
    assert fair_s <= SLOWER_MACHINE * 10.0, told


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("rate", [100.0, 200.0])
async def test_an_empty_answer(start_bench: Callable[..., Bench], rate: float, workers: int) -> None:
    """At once, and well formed, which is legal: no more than a fair share, and the proxy says so."""
    bench = await asyncio.to_thread(start_bench, POLICY, workers=workers)
    bad = bench.replicas[0]
    async with Load(bench.proxy.port, rate, CHATS) as load:
        await asyncio.sleep(WARM_S)
        faults = [(time.monotonic(), "empty")]
        bad.mode("instant_empty")
        doubted_s = await bench.until_said("in doubt", bad, SLOWER_MACHINE * 3.0)
        await asyncio.sleep(max(0.0, faults[0][0] + WITHOUT_ANSWERS_S - time.monotonic()))
        faults.append((time.monotonic(), "healed"))
        bad.mode("pass")
        await asyncio.sleep(AFTER_S)
    began, healed = faults[0][0], faults[1][0]
    share = share_of(between(load.results, began, healed), bad)
    fair_s = fair_again_s(load.results, bad, healed, AFTER_S)
    told = (
        f"{rate:g} a second, {workers} workers: in doubt after {doubted_s:.2f} s; share {share:.1%}; "
        f"fair again after {fair_s:.1f} s\n{listed(load.results, faults)}"
    )
    print(told)
    assert not failures(load.results), told
    assert share <= 0.3, told
    assert fair_s <= SLOWER_MACHINE * 10.0, told


async def test_no_replica_is_left(start_bench: Callable[[Policy], Bench]) -> None:
    """503 with ``Retry-After`` where nothing was sent; and back as soon as one is."""
    bench = await asyncio.to_thread(start_bench, POLICY)
    async with Load(bench.proxy.port, RATE / 3) as load:
        await asyncio.sleep(2.0)
        for replica in bench.replicas:
            replica.mode("refuse")
        await asyncio.sleep(1.0)
        faults = [(time.monotonic(), "none left")]
        await asyncio.sleep(5.0)
        faults.append((time.monotonic(), "back"))
        for replica in bench.replicas:
            replica.mode("pass")
        for replica in bench.replicas:
            await bench.until(lambda said: not said, replica, SLOWER_MACHINE * 5.0)
        faults.append((time.monotonic(), "all back"))
        await asyncio.sleep(2.0)
    told = listed(load.results, faults)
    print(told)
    down = [one for one in load.results if faults[0][0] <= one.began < faults[1][0] - 1.0]
    assert {one.status for one in down} == {503}, told
    assert all(one.ok for one in load.results if one.began >= faults[2][0]), told


async def test_a_thousand_faults_send_nothing_unsafe_twice(start_bench: Callable[[Policy], Bench]) -> None:
    """One in three responses is lost on its way, in four forms, when the request has been executed."""
    never_out = Ejection(consecutive_failures=1_000_000, max_ejected_percent=0)
    policy = Policy(strategy="round_robin", ejection=never_out, timeouts=POLICY.timeouts)
    bench = await asyncio.to_thread(start_bench, policy)
    for replica in bench.replicas:
        replica.mode("at_random")
    async with Load(bench.proxy.port, min(RATE, 200.0), kinds=("unsafe",)) as load:
        while len(failures(load.results[:-200])) < 1000:  # noqa: ASYNC110 (nothing tells of it)
            await asyncio.sleep(0.5)
    told = listed(load.results, [])
    print(told)
    assert not executed_twice(bench, load.results), told
