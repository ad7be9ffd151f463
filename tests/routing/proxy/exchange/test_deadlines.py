"""Over a real proxy: what only the fast replica can do in time goes there, and not more than it can take."""

import asyncio
import json
from collections import Counter

import pytest

from routing.balancing.learning import predictions
from routing.contract.policy import Policy, Slo
from tests.routing.proxy.rig import OK, Client, Replica, ReplicaConnection, Rig, Script, Seen

FAST_S, SLOW_S = 0.02, 0.12
"""Until the first token; half as long again until the end."""
OBJECTIVE_S = 0.06
PATH = b"POST /v1/chat/completions HTTP/1.1\r\nHost: a.test\r\n"
NAME = b"x-switchyard-replica"


def answers_within(seconds: float) -> Script:
    async def script(connection: ReplicaConnection, seen: Seen) -> None:
        write = connection.transport.write
        await asyncio.sleep(seconds)
        write(OK + b"Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(2):
            event = b'data: {"choices": [{"text": "word"}]}\n\n'
            write(b"%x\r\n%b\r\n" % (len(event), event))
            await asyncio.sleep(seconds / 4)
        write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")

    return script


def chat(stream: bool = True, *fields: bytes) -> bytes:
    body = json.dumps({"model": "f", "messages": [], "max_tokens": 10, "stream": stream}).encode()
    lines = (*fields, b"Content-Length: %d" % len(body))
    return PATH + b"".join(line + b"\r\n" for line in lines) + b"\r\n" + body


async def asked(client: Client, request: bytes, count: int) -> Counter[bytes]:
    found: Counter[bytes] = Counter()
    for _ in range(count):
        found[(await client.ask(request)).get(NAME)[0]] += 1
    return found


async def two_replicas(rig: Rig, monkeypatch: pytest.MonkeyPatch, slo: Slo) -> tuple[Replica, Replica]:
    """A fleet that takes turns, of which so many streams were seen that predictions are known."""
    # Otherwise the first request in each half second is learned from.
    monkeypatch.setattr(predictions, "EVERY_S", 0.0)
    fast, slow = await rig.replica("fast"), await rig.replica("slow")
    fast.script, slow.script = answers_within(FAST_S), answers_within(SLOW_S)
    policy = Policy(strategy="round_robin", slo=slo, slow_start_s=0.0)
    rig.fleet(fast, slow, protocol="openai", policy=policy)
    client = await rig.client()
    # A generous deadline changes nothing, but such a request is looked at.
    learned = await asked(client, chat(True, b"X-Request-Timeout-Ms: 60000"), 30)
    assert min(learned[b"fast"], learned[b"slow"]) >= 10
    return fast, slow


async def test_streams_go_where_the_objective_is_met(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    await two_replicas(rig, monkeypatch, Slo(first_token_s=OBJECTIVE_S))
    client = await rig.client()
    assert (await asked(client, chat(), 12))[b"fast"] >= 11
    assert rig.table.fleets["f"].counters.picked_in_time >= 4
    # What is not streamed has no first token.
    assert await asked(client, chat(False), 4) == {b"fast": 2, b"slow": 2}


async def test_at_once_they_fill_the_fast_one_and_no_more(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    await two_replicas(rig, monkeypatch, Slo(first_token_s=OBJECTIVE_S))
    clients = [await rig.client() for _ in range(40)]
    found = Counter(
        answer.get(NAME)[0] for answer in await asyncio.gather(*(one.ask(chat()) for one in clients))
    )
    assert found[b"fast"] > found[b"slow"] >= 3


async def test_deadlines_are_met_where_they_can_be(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    await two_replicas(rig, monkeypatch, Slo())
    client = await rig.client()
    assert (await asked(client, chat(True, b"X-Request-Timeout-Ms: 100"), 12))[b"fast"] >= 11
    # Without one they take turns.
    assert await asked(client, chat(), 4) == {b"fast": 2, b"slow": 2}
