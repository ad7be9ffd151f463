"""The example client: lengths and arrivals of the trace, open-loop, bounded."""

import asyncio
import itertools
import json
import random
from pathlib import Path

import pytest
from aiohttp import web

from examples.client.load import Client
from examples.client.patience import ready
from examples.client.requests import LONGEST_OUTPUT, LONGEST_PROMPT, chat_or_completion, digit_pictures, rows
from examples.client.trace import (
    CONTEXT_TOKENS,
    GENERATED_TOKENS,
    MEAN_GAP_S,
    Arrival,
    from_file,
    synthetic,
)

TRACE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"


def test_synthetic_arrivals_have_the_traces_percentiles() -> None:
    """20,000 draws with seed 1; a percentile's sampling error is below 5 % at that size."""
    drawn = list(itertools.islice(synthetic(random.Random(1)), 20_000))
    contexts = sorted(arrival.context_tokens for arrival in drawn)
    outputs = sorted(arrival.generated_tokens for arrival in drawn)
    assert contexts[10_000] == pytest.approx(CONTEXT_TOKENS[7], rel=0.05)
    assert contexts[19_000] == pytest.approx(CONTEXT_TOKENS[12], rel=0.05)
    assert outputs[10_000] == pytest.approx(GENERATED_TOKENS[7], rel=0.05)
    mean_gap = sum(arrival.gap_s for arrival in drawn) / len(drawn)
    assert mean_gap == pytest.approx(MEAN_GAP_S, rel=0.05)


def test_a_trace_file_is_read_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_text(TRACE + "2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n")
    first, second = from_file(file)
    assert first == Arrival(0.0, 374, 44)
    assert second.gap_s == pytest.approx(4.314579, abs=1e-5)


def test_a_row_that_is_none_of_a_trace_is_named(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_text(TRACE + "yesterday,374,44\n")
    with pytest.raises(ValueError, match=r"'yesterday'.* is not a row of the trace"):
        list(from_file(file))


def test_lengths_are_scaled_to_small_models() -> None:
    rng = random.Random(1)
    longest = json.loads(chat_or_completion(rng, 14_050, 1_000).body)
    text = longest.get("prompt") or longest["messages"][0]["content"]
    assert len(text.split()) == LONGEST_PROMPT
    assert longest["max_tokens"] == LONGEST_OUTPUT
    shortest = json.loads(chat_or_completion(rng, 2, 7).body)
    assert shortest["max_tokens"] == 1


def test_all_kinds_of_requests_occur() -> None:
    rng = random.Random(1)
    made = [chat_or_completion(rng, 500, 100) for _ in range(200)]
    kinds = {(request.kind, request.streams) for request in made}
    assert kinds == {("chat", True), ("chat", False), ("completion", True), ("completion", False)}


def test_rows_are_real_pictures_in_mixed_numbers() -> None:
    pictures = digit_pictures()
    assert (len(pictures), len(pictures[0])) == (1797, 64)
    small, large = (rows(random.Random(1), pictures, tokens) for tokens in (10, 4_000))
    assert json.loads(small.body)["inputs"][0]["shape"] == [1, 64]
    assert json.loads(large.body)["inputs"][0]["shape"] == [62, 64]


class Peer:
    """A real HTTP server that holds every answer back until ``release`` is set."""

    def __init__(self) -> None:
        self.release = asyncio.Event()
        self.open = self.most_open = self.total = 0
        self.credentials: list[str | None] = []

    async def answer(self, request: web.Request) -> web.Response:
        await request.read()
        self.credentials.append(request.headers.get("Authorization"))
        self.total += 1
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        await self.release.wait()
        self.open -= 1
        return web.json_response({})

    async def start(self) -> tuple[web.AppRunner, str]:
        application = web.Application()
        application.router.add_post("/{path:.*}", self.answer)
        runner = web.AppRunner(application)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        return runner, f"http://127.0.0.1:{runner.addresses[0][1]}"


async def test_it_keeps_sending_while_answers_are_late_up_to_its_bound() -> None:
    peer = Peer()
    runner, url = await peer.start()
    client = Client(url, rate=1 / MEAN_GAP_S, most_open=5, seed=1)
    arrivals = iter([Arrival(0.001, 500, 50)] * 12)
    running = asyncio.create_task(client.run(arrivals))
    async with asyncio.timeout(20):
        while client.counts["skipped"] + peer.total < 12:  # noqa: ASYNC110  # seen through the socket only
            await asyncio.sleep(0.01)
        assert (peer.most_open, client.counts["skipped"]) == (5, 7)
        peer.release.set()
        await running
    assert peer.total == 5
    await runner.cleanup()


async def test_it_sends_its_key_while_there_is_one(tmp_path: Path) -> None:
    peer = Peer()
    peer.release.set()
    runner, url = await peer.start()
    file = tmp_path / "key"
    client = Client(url, rate=1 / MEAN_GAP_S, most_open=5, seed=1, key_file=file)
    for key in ("", "sy-one", "sy-two"):
        if key:
            file.write_text(f"{key}\n")
        await client.run(iter([Arrival(0.0, 10, 10)]))
    file.unlink()
    await client.run(iter([Arrival(0.0, 10, 10)]))
    assert peer.credentials == [None, "Bearer sy-one", "Bearer sy-two", None]
    await runner.cleanup()


async def test_a_missing_proxy_is_counted_not_raised(capsys: pytest.CaptureFixture[str]) -> None:
    client = Client("http://127.0.0.1:9", rate=1 / MEAN_GAP_S, most_open=5, seed=1)
    await client.run(iter([Arrival(0.0, 10, 10)] * 3))
    assert "ClientConnectorError: 3; no answers; 0 open" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, False),
        ({"workers": [{}, {}], "fleets": {}}, False),
        ({"workers": [{}, {}], "fleets": {"tiny-llm": 1, "digits": 1}}, False),
        ({"workers": [{}, {}], "fleets": {"tiny-llm": 2, "digits": 2}}, True),
    ],
)
def test_it_begins_when_all_workers_may_pick_from_both_fleets(
    status: dict[str, object], expected: bool
) -> None:
    fleets = status.get("fleets", {})
    assert isinstance(fleets, dict)
    rows = {name: {"replicas": [{"eligible_in_workers": number}]} for name, number in fleets.items()}
    assert ready({**status, "fleets": rows}) is expected
