"""Picks that wait for a place, in threads and in event loops; in flight comes back to 0 on every way out."""

import asyncio
import gc
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from examples.library.embed import embed_all
from routing.balancing.balancer import Balancer, NoReplica
from routing.balancing.replica.state import Replica
from routing.contract.policy import Policy, Queue

URLS = ["http://10.0.0.1:8000", "http://10.0.0.2:8000"]


def limited(**policy: object) -> Balancer:
    """Two replicas, one place each."""
    fields = {"max_concurrency": 1, "slow_start_s": 0.0} | policy
    return Balancer(URLS, policy=Policy(**fields))  # type: ignore[arg-type]


def waiting(balancer: Balancer) -> int:
    return len(balancer._calls.pool.admission.queue)


def idle(balancer: Balancer) -> bool:
    """Nothing in flight, nobody waits, nothing is expected anywhere."""
    pool = balancer._calls.pool
    left = {(one.in_flight, one.work, one.load, one.queued, one.load_work) for one in pool.replicas}
    return left == {(0, 0.0, 0, 0, 0.0)} and not waiting(balancer)


def until(condition: object, limit_s: float = 5.0) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_without_time_to_wait_it_is_refused_at_once() -> None:
    balancer = limited()
    with balancer.pick(), balancer.pick():
        began = time.monotonic()
        with pytest.raises(NoReplica, match="no replica has a free slot"), balancer.pick():
            raise AssertionError("there is no place")
        assert time.monotonic() - began < 1.0
    assert idle(balancer)


def test_who_waits_gets_the_place_that_is_given_back_in_order() -> None:
    balancer, order = Balancer(URLS[:1], policy=Policy(max_concurrency=1, slow_start_s=0.0)), []

    def call(number: int) -> None:
        with balancer.pick(timeout_s=5.0):
            order.append(number)

    with balancer.pick():
        threads = [threading.Thread(target=call, args=(number,)) for number in range(5)]
        for number, thread in enumerate(threads):
            thread.start()
            until(lambda number=number: waiting(balancer) == number + 1)
    for thread in threads:
        thread.join(5.0)
    assert order == [0, 1, 2, 3, 4]
    assert idle(balancer)


def test_who_waits_in_vain_is_told_so() -> None:
    balancer = limited()
    with balancer.pick(), balancer.pick():
        began = time.monotonic()
        with pytest.raises(NoReplica, match=r"had a free slot for the call within 0\.\d+ s"):
            balancer.pick(timeout_s=0.1).__enter__()
        assert 0.09 < time.monotonic() - began < 1.0
    assert idle(balancer)


def test_a_full_queue_refuses_at_once() -> None:
    balancer = limited(queue=Queue(size=0))
    with (
        balancer.pick(),
        balancer.pick(),
        pytest.raises(NoReplica, match="queue has size 0"),
        balancer.pick(timeout_s=5.0),
    ):
        raise AssertionError("there is no place")
    assert idle(balancer)


def test_a_place_that_comes_by_itself_is_taken() -> None:
    """A replica joins while somebody waits: nobody gives a place back."""
    balancer = limited()
    with ThreadPoolExecutor(1) as threads, balancer.pick(), balancer.pick():
        pick = balancer.pick(timeout_s=5.0)
        entered = threads.submit(pick.__enter__)
        until(lambda: waiting(balancer) == 1)
        balancer.replace([*URLS, "http://10.0.0.3:8000"])
        assert entered.result(5.0).host == "10.0.0.3"
        pick.__exit__(None, None, None)
    assert idle(balancer)


async def test_an_event_loop_runs_on_while_it_waits() -> None:
    balancer, ticks = limited(), 0

    async def call(hold_s: float) -> str:
        async with balancer.pick(timeout_s=5.0) as replica:
            await asyncio.sleep(hold_s)
            return replica.host

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.005)

    ticking = asyncio.create_task(tick())
    hosts = await asyncio.gather(*(call(0.03) for _ in range(8)))
    ticking.cancel()
    assert ticks > 8
    assert set(hosts) == {"10.0.0.1", "10.0.0.2"}
    assert idle(balancer)


async def test_a_plain_with_does_not_block_an_event_loop() -> None:
    balancer = limited()
    with balancer.pick(timeout_s=5.0), balancer.pick(timeout_s=5.0):
        with pytest.raises(RuntimeError, match="use `async with`"), balancer.pick(timeout_s=5.0):
            raise AssertionError("there is no place")
        assert waiting(balancer) == 0
    assert idle(balancer)


async def test_cancelled_while_it_waits_or_at_the_moment_it_is_let_in() -> None:
    balancer = limited()

    async def call() -> None:
        async with balancer.pick(timeout_s=5.0):
            await asyncio.sleep(5.0)

    async with balancer.pick() as first, balancer.pick():
        tasks = [asyncio.create_task(call()) for _ in range(3)]
        await asyncio.sleep(0.01)
        assert waiting(balancer) == 3
        tasks[1].cancel()
        await asyncio.sleep(0.01)
        assert waiting(balancer) == 2
    # Two places have been handed over; neither task has run since.
    assert waiting(balancer) == 0
    tasks[0].cancel()
    tasks[2].cancel()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(one, asyncio.CancelledError) for one in done)
    assert first.failed == 0
    assert idle(balancer)


async def test_threads_and_event_loops_share_one_line() -> None:
    """Four threads and twenty tasks, two places; some fail, some are cancelled."""
    balancer, most, now_in = limited(), 0, 0
    lock = threading.Lock()

    def come(by: int) -> None:
        nonlocal most, now_in
        with lock:
            now_in += by
            most = max(most, now_in)

    def in_thread() -> int:
        done = 0
        for turn in range(25):
            try:
                with balancer.pick(work=turn + 1, timeout_s=10.0):
                    come(1)
                    time.sleep(0.0005)
                    come(-1)
                    if turn % 5 == 4:
                        raise ValueError
                    done += 1
            except ValueError:
                pass
        return done

    async def in_loop(number: int) -> None:
        async with balancer.pick(timeout_s=10.0):
            come(1)
            try:
                await asyncio.sleep(0.002)
            finally:
                come(-1)

    threads = [asyncio.create_task(asyncio.to_thread(in_thread)) for _ in range(4)]
    tasks = [asyncio.create_task(in_loop(number)) for number in range(20)]
    await asyncio.sleep(0.02)
    for task in tasks[::4]:
        task.cancel()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert sum(await asyncio.gather(*threads)) == 80
    assert {type(one) for one in ended} <= {type(None), asyncio.CancelledError}
    assert most == 2
    assert idle(balancer)


def test_a_generator_that_is_closed_gives_its_place_back() -> None:
    balancer = limited()

    def stream() -> Iterator[Replica]:
        with balancer.pick() as replica:
            yield replica
            yield replica

    replica = next(running := stream())
    assert replica.in_flight == 1
    running.close()
    assert (replica.in_flight, replica.failed, replica.outcomes.cancelled) == (0, 0, 1)

    # Left alone in a circle, it is closed by the garbage collector, wherever that runs.
    circle: list[object] = []
    circle += [circle, left := stream()]
    next(left)
    del circle, left
    gc.collect()
    assert idle(balancer)


def test_the_garbage_collector_may_run_in_the_middle_of_a_pick(monkeypatch: pytest.MonkeyPatch) -> None:
    balancer = limited()

    def stream() -> Iterator[Replica]:
        with balancer.pick() as replica:
            yield replica

    abandoned = stream()
    next(abandoned)
    pool, begin = balancer._calls.pool, balancer._calls.pool.begin

    def and_collect(*arguments: object, **named: object) -> object:
        abandoned.close()
        # Not in the middle: it is uncounted when the pick is done.
        assert sum(replica.in_flight for replica in pool.replicas) == 1
        return begin(*arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(pool, "begin", and_collect)
    with ThreadPoolExecutor(1) as threads:
        threads.submit(lambda: balancer.pick().__enter__()).result(5.0)
    assert sum(replica.in_flight for replica in pool.replicas) == 1


def test_a_pick_is_used_once() -> None:
    balancer = limited()
    pick = balancer.pick()
    with pick:
        pass
    with pytest.raises(RuntimeError, match="a pick is used once"), pick:
        pass
    assert idle(balancer)


def test_the_example_calls_real_servers() -> None:
    class Server(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body.upper())

        def log_message(self, *_: object) -> None:
            pass

    servers = [ThreadingHTTPServer(("127.0.0.1", 0), Server) for _ in range(2)]
    for server in servers:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        urls = [f"http://127.0.0.1:{server.server_port}" for server in servers]
        texts = [f"text {number}" for number in range(40)]
        assert embed_all(urls, texts) == [text.upper().encode() for text in texts]
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()
