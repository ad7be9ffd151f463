"""The server with continuous batching, against what can be reckoned by hand."""

from collections.abc import Sequence
from itertools import pairwise
from math import inf
from random import Random

import pytest

from routing.balancing.attempt.outcome import Outcome
from routing.simulator.batching import REPORTED_EVERY_S, BatchingServer
from routing.simulator.engine import Engine
from routing.simulator.gpus import Gpu
from routing.simulator.llm_lengths import Lengths
from routing.simulator.prefix_cache import PrefixCache, packed
from routing.simulator.requests import Request


class Client:
    """Writes down what it hears."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.first_s = inf
        self.ended_s = inf
        self.news: list[tuple[float, int]] = []

    def first_byte(self, now: float) -> None:
        assert not self.news
        self.first_s = now

    def tokens(self, now: float, count: int) -> None:
        self.news.append((now, count))

    def ended(self, now: float, outcome: Outcome) -> None:
        assert outcome is Outcome.SUCCESS
        assert self.ended_s == inf
        self.ended_s = now

    @property
    def count(self) -> int:
        return sum(count for _, count in self.news)


def ask(
    engine: Engine, server: BatchingServer, at_s: float, prompt: int, output: int, key: bytes = b""
) -> Client:
    request = Request(at_s, prompt_tokens=prompt, output_tokens=output, key=key)
    client = Client(request)
    engine.at(at_s, lambda: server.begin(request, client))
    return client


def run(
    gpu: Gpu, lengths: Sequence[tuple[int, int]], speed: float = 1.0
) -> tuple[BatchingServer, list[Client]]:
    """All asked in one moment."""
    engine = Engine()
    server = BatchingServer(engine, speed, gpu)
    clients = [ask(engine, server, 0.0, *one) for one in lengths]
    engine.run()
    return server, clients


SIMPLE = Gpu(step_s=0.01, sequence_s=0.001, kv_token_s=1e-6, prompt_token_s=1e-4)


@pytest.mark.parametrize("speed", [1.0, 4.0])
def test_one_alone_takes_its_prompt_and_then_its_steps(speed):
    _, [client] = run(SIMPLE, [(1000, 51)], speed)
    reading = 0.01 + 1000 * 1e-4 + 1000 * 1e-6
    decoding = sum(0.01 + 0.001 + (1000 + made) * 1e-6 for made in range(50))
    assert client.first_s == pytest.approx(reading / speed)
    assert client.ended_s == pytest.approx((reading + decoding) / speed)
    assert client.count == 51


def test_it_is_busy_for_as_long_as_its_steps_take():
    engine = Engine()
    server = BatchingServer(engine, 2.0, SIMPLE)
    first, second = ask(engine, server, 0.0, 1000, 51), ask(engine, server, 9.0, 1000, 51)
    engine.run()
    assert second.first_s > 9.0
    assert server.busy_s == pytest.approx(2 * first.ended_s)


def test_a_long_prompt_is_read_in_chunks_beside_those_who_decode():
    engine = Engine()
    server = BatchingServer(engine, 1.0, SIMPLE._replace(kv_token_s=0.0, step_tokens=512))
    first = ask(engine, server, 0.0, 100, 400)
    long = ask(engine, server, 0.5, 4 * 511, 1)
    engine.run()
    # Each step has one token of the first and 511 of the long prompt.
    step = 0.01 + 0.001 + 511 * 1e-4
    assert 4 * step <= long.first_s - 0.5 <= 4 * step + 0.011
    assert first.ended_s == pytest.approx(0.01 + 100 * 1e-4 + 399 * 0.011 + 4 * 511 * 1e-4)


def test_whole_prompts_where_there_is_no_budget():
    _, [one] = run(SIMPLE._replace(kv_token_s=0.0, step_tokens=None), [(9000, 1)])
    assert one.ended_s == pytest.approx(0.01 + 0.9)


def test_throughput_of_a_full_batch():
    gpu = Gpu()
    engine = Engine()
    server = BatchingServer(engine, 1.0, gpu)
    rng, lengths = Random(5), Lengths()
    asked = [lengths.draw(rng) for _ in range(1500)]
    clients = [ask(engine, server, 0.0, *one) for one in asked]
    engine.run()
    prompt, output = (sum(one) / len(asked) for one in zip(*asked, strict=True))
    # At the end the batch is no longer full.
    last_begun = max(client.first_s for client in clients)
    done = sum(client.ended_s <= last_begun for client in clients)
    assert done / last_begun == pytest.approx(gpu.requests_per_s(prompt, output), rel=0.05)


def test_who_finds_no_place_in_the_batch_waits_in_order():
    _, clients = run(SIMPLE._replace(batch=2), [(10, 20), (10, 30), (10, 5), (10, 5)])
    assert clients[2].first_s > clients[0].ended_s
    assert clients[3].first_s > clients[2].ended_s
    assert clients[3].first_s < clients[1].ended_s


def test_preemption_frees_memory_and_loses_no_token():
    gpu = SIMPLE._replace(kv_tokens=1000)
    lengths = [(200, 300), (200, 300), (200, 300), (300, 100)]
    server, clients = run(gpu, lengths)
    assert server.preemptions
    assert server.kv_tokens == server.in_batch == server.waiting == 0
    assert [client.count for client in clients] == [output for _, output in lengths]
    # Who came first is not the one that has to go.
    assert clients[0].ended_s == min(client.ended_s for client in clients)
    with_room, _ = run(SIMPLE, lengths)
    assert not with_room.preemptions
    assert server.steps > with_room.steps


def test_who_was_preempted_goes_on_before_others_with_what_it_had():
    engine = Engine()
    server = BatchingServer(engine, 1.0, SIMPLE._replace(kv_tokens=500))
    stays, goes = (ask(engine, server, 0.0, 100, 300) for _ in range(2))
    waits = ask(engine, server, 0.1, 400, 100)
    engine.run()
    # Both make 150 tokens, one its other 150 alone, then the other: 450 steps, and then 100 of who waited.
    assert server.preemptions == 1
    assert server.steps == pytest.approx(550, abs=3)
    assert stays.ended_s < goes.ended_s < waits.first_s
    assert goes.count == 300


def test_memory_is_never_exceeded_by_more_than_one():
    engine = Engine()
    server = BatchingServer(engine, 1.0, SIMPLE._replace(kv_tokens=3000, step_tokens=256))
    rng = Random(7)
    clients = [
        ask(engine, server, rng.random() * 5, rng.randint(1, 900), rng.randint(1, 400)) for _ in range(60)
    ]
    for tenth in range(2000):
        engine.run(tenth / 10)
        assert server.kv_tokens <= 3000 or server.in_batch == 1
    assert all(client.count == client.request.output_tokens for client in clients)
    assert server.preemptions


def test_one_that_is_larger_than_the_memory_runs_alone():
    _, clients = run(SIMPLE._replace(kv_tokens=100), [(500, 20), (10, 10)])
    assert [client.count for client in clients] == [20, 10]


def test_tokens_are_told_as_often_as_streams_are_learned_from():
    _, [client] = run(SIMPLE._replace(kv_token_s=0.0), [(100, 500)])
    times = [at for at, _ in client.news]
    gaps = [after - before for before, after in pairwise(times)]
    assert all(REPORTED_EVERY_S <= gap <= REPORTED_EVERY_S + 0.0111 for gap in gaps[1:-1])
    assert client.news[0] == (client.first_s, 1)


def test_one_that_comes_later_does_not_wait_for_a_stretch_of_steps_to_end():
    engine = Engine()
    server = BatchingServer(engine, 1.0, SIMPLE._replace(kv_token_s=0.0))
    early = ask(engine, server, 0.0, 100, 1000)
    late = ask(engine, server, 1.0, 100, 1)
    engine.run()
    assert late.first_s <= 1.0 + 0.011 + 0.01 + 0.001 + 0.01 + 1e-9
    assert early.ended_s == pytest.approx(0.02 + 999 * 0.011 + 100 * 1e-4)


def test_a_new_speed_counts_from_the_next_step_on():
    engine = Engine()
    server = BatchingServer(engine, 4.0, SIMPLE._replace(kv_token_s=0.0))
    client = ask(engine, server, 0.0, 100, 1001)
    engine.at(1.0, lambda: server.set_speed(1.0))
    engine.run()
    steps_before = (1.0 - 0.02 / 4) / (0.011 / 4)
    assert client.ended_s == pytest.approx(1.0 + (1000 - steps_before) * 0.011, abs=0.012)


def test_who_has_left_takes_nothing_and_hears_nothing():
    engine = Engine()
    server = BatchingServer(engine, 1.0, SIMPLE._replace(batch=2, kv_token_s=0.0))
    stays = ask(engine, server, 0.0, 100, 200)
    leaves = ask(engine, server, 0.0, 100, 200)
    waits = ask(engine, server, 0.1, 100, 200)
    waits_too = ask(engine, server, 0.1, 100, 200)
    for client in (leaves, waits):
        engine.at(1.0, lambda client=client: server.cancel(client.request))
    engine.run()
    assert leaves.count < 200
    assert max(at for at, _ in leaves.news) <= 1.0
    assert not waits.news
    assert waits_too.first_s == pytest.approx(1.0, abs=0.05)
    assert stays.count == waits_too.count == 200
    assert server.kv_tokens == server.in_batch == 0
    server.cancel(leaves.request)


def test_one_that_leaves_while_its_prompt_is_read():
    engine = Engine()
    server = BatchingServer(engine, 1.0, SIMPLE)
    client = ask(engine, server, 0.0, 20_000, 10)
    engine.at(0.5, lambda: server.cancel(client.request))
    after = ask(engine, server, 5.0, 10, 10)
    engine.run()
    assert not client.news
    assert after.count == 10
    assert server.kv_tokens == 0


def test_a_machine_that_is_lost_begins_anew():
    engine = Engine()
    server = BatchingServer(engine, 1.0, SIMPLE._replace(batch=2))
    clients = [ask(engine, server, 0.0, 3000, 100) for _ in range(4)]
    lost = []
    engine.at(0.7, lambda: lost.extend(server.drop()))
    after = ask(engine, server, 0.8, 1000, 51)
    engine.run()
    assert lost == clients
    assert {client.ended_s for client in clients} == {inf}
    alone = run(SIMPLE, [(1000, 51)])[1][0]
    assert after.ended_s - 0.8 == pytest.approx(alone.ended_s)
    assert server.kv_tokens == server.in_batch == 0


def test_a_prompt_that_begins_like_one_before_is_read_from_there_on():
    engine = Engine()
    server = BatchingServer(engine, 1.0, SIMPLE, PrefixCache(SIMPLE.kv_tokens))
    first = ask(engine, server, 0.0, 1500, 1, packed([7, 8, 9]))
    again = ask(engine, server, 10.0, 1500, 1, packed([7, 8, 10]))
    other = ask(engine, server, 20.0, 1500, 1, packed([1, 8, 9]))
    engine.run()
    took = [client.ended_s - client.request.at_s for client in (first, again, other)]
    assert took[0] - took[1] == pytest.approx(1024 * 1e-4)
    assert took[2] == pytest.approx(took[0])


def test_kept_blocks_are_bounded_and_the_least_used_go_first():
    cache = PrefixCache(kv_tokens=3 * 512)
    assert cache.take(packed([1, 2]), 1024) == 0
    assert cache.take(packed([1, 2]), 1024) == 1023
    assert cache.take(packed([3, 4]), 1024) == 0
    assert cache.take(packed([1]), 512) == 0
    assert cache.take(packed([4]), 513) == 512
