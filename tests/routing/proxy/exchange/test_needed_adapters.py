"""Adapters that some of a fleet's replicas serve: who gets a request that names one, who waits, who is told
what."""

import asyncio
import time
from collections import Counter
from typing import Any

import msgspec
import pytest

from routing.balancing.attempt.outcome import Outcome
from routing.balancing.pool.pool import Attempt
from routing.proxy.exchange.router import WORTH_COLLECTING_BYTES
from tests.routing.proxy.exchange.queueing import Gate, clients, policy
from tests.routing.proxy.rig import CHAT_BODY, Answer, Client, Replica, Rig, answer_body, until

ADAPTERS = ("sql", "chat")
SERVING = {"r0": ["sql"], "r1": ["sql", "chat"], "r2": [], "r3": ["chat"]}


def ask(model: str, more: bytes = b"", path: bytes = b"/v1/chat/completions", **members: Any) -> bytes:
    body = msgspec.json.encode(
        {"model": model, **members, "messages": [{"role": "user", "content": "hello"}], "max_tokens": 8}
    )
    fields = b"Host: a.test\r\nContent-Type: application/json\r\nContent-Length: %d%b" % (len(body), more)
    return b"POST %b HTTP/1.1\r\n%b\r\n\r\n%b" % (path, fields, body)


async def fleet(rig: Rig, serving: dict[str, list[str]] | None = None, **given: Any) -> list[Replica]:
    replicas = [await rig.replica() for _ in range(4)]
    for replica in replicas:
        replica.script = answer_body(CHAT_BODY)
    again(rig, replicas, serving, **given)
    return replicas


def again(
    rig: Rig, replicas: list[Replica], serving: dict[str, list[str]] | None = None, **given: Any
) -> None:
    fields = {"max_concurrency": None, "strategy": "round_robin", **given.pop("policy", {})}
    rig.fleet(
        *replicas,
        protocol="openai",
        served_model="base",
        adapters=ADAPTERS,
        policy=policy(**fields),
        serving=SERVING if serving is None else serving,
        **given,
    )


def code(answer: Answer) -> str:
    return str(msgspec.json.decode(answer.body)["error"]["code"])


def models(replica: Replica) -> Counter[str]:
    return Counter(msgspec.json.decode(seen.body)["model"] for seen in replica.requests)


async def all_of(rig: Rig, requests: list[bytes], at_once: int = 8) -> list[int]:
    """Their statuses, by that many clients."""
    statuses: list[int] = []

    async def one(client: Client) -> None:
        while requests:
            statuses.append((await client.ask(requests.pop())).status)

    await asyncio.gather(*(one(client) for client in await clients(rig, at_once)))
    return statuses


async def test_requests_for_an_adapter_go_where_it_is_served_and_others_everywhere(rig: Rig) -> None:
    replicas = await fleet(rig)
    assert set(await all_of(rig, [ask("sql") for _ in range(200)] + [ask("f") for _ in range(100)])) == {200}
    seen = [models(replica) for replica in replicas]
    assert sum(one["sql"] for one in seen) == 200
    assert [one["sql"] for one in seen[2:]] == [0, 0]
    assert all(one["base"] > 5 for one in seen)


@pytest.mark.parametrize("expose", ["inference", "all"])
@pytest.mark.parametrize("strategy", ["least_expected_work", "prefix_affinity", "consistent_hash"])
async def test_wherever_its_name_is(rig: Rig, expose: Any, strategy: str) -> None:
    """In the body of a request whose fleet the head names, in pieces, or beside the model."""
    replicas = await fleet(rig, expose=expose, policy={"strategy": strategy})
    client = await rig.client()
    for _ in range(4):
        for request in (
            ask("chat", path=b"/fleets/f/v1/chat/completions"),
            ask("chat", more=b"\r\nX-Switchyard-Fleet: f"),
            ask("f", lora_path="chat"),
            ask("f", parameters={"adapter_id": "chat"}),
        ):
            assert (await client.ask(request)).status == 200
        in_pieces = ask("chat", path=b"/fleets/f/v1/chat/completions")
        client.send(in_pieces[:-40])
        await until(lambda: rig.proxy.bodies.used)
        client.send(in_pieces[-40:])
        assert (await client.answer(b"POST")).status == 200
    assert not replicas[0].requests
    assert not replicas[2].requests
    assert len(replicas[1].requests) + len(replicas[3].requests) == 20


async def test_a_body_that_comes_in_pieces_is_waited_for(rig: Rig) -> None:
    """Nothing else of this fleet needs it."""
    replicas = [await rig.replica() for _ in range(4)]
    for replica in replicas:
        replica.script = answer_body(CHAT_BODY)
    rig.fleet(*replicas, protocol="openai", adapters=ADAPTERS, expose="all", serving=SERVING)
    client = await rig.client()
    for _ in range(8):
        request = ask("chat", path=b"/fleets/f/v1/chat/completions", user="u" * WORTH_COLLECTING_BYTES)
        client.send(request[:1000])
        await until(lambda: rig.proxy.bodies.used)
        assert not any(replica.connections for replica in (replicas[0], replicas[2]))
        client.send(request[1000:])
        assert (await client.answer(b"POST")).status == 200
    assert not replicas[0].requests
    assert not replicas[2].requests


async def test_several_need_a_replica_that_serves_all_of_them(rig: Rig) -> None:
    replicas = await fleet(rig)
    client = await rig.client()
    for _ in range(6):
        assert (await client.ask(ask("sql", lora_path=["chat", "sql"]))).status == 200
    assert [len(replica.requests) for replica in replicas] == [0, 6, 0, 0]


async def test_in_the_path_of_the_open_inference_protocol(rig: Rig) -> None:
    replicas = [await rig.replica() for _ in range(3)]
    rig.fleet(*replicas, protocol="open-inference", adapters=("sql",), serving={"r0": [], "r2": []})
    client = await rig.client()
    for _ in range(4):
        head = b"POST /v2/models/sql/infer HTTP/1.1\r\nHost: a.test\r\nContent-Length: 2\r\n\r\n{}"
        assert (await client.ask(head)).status == 200
    assert [len(replica.requests) for replica in replicas] == [0, 4, 0]


async def test_while_its_replicas_are_full_it_waits_and_others_go_on(rig: Rig) -> None:
    replicas = await fleet(rig, policy={"max_concurrency": 1, "queue": {"size": 4}})
    gate = Gate(*replicas[:2])
    x, y, z, base = await clients(rig, 4)
    for client in (x, y):
        client.send(ask("sql"))
    await until(lambda: len(gate.serving) == 2)
    admission = rig.table.fleets["f"].admission
    z.send(ask("sql"))
    await until(lambda: len(admission.queue) == 1)
    for _ in range(8):
        rig.table.fleets["f"].refresh(time.monotonic())
        assert (await base.ask(ask("f"))).status == 200
    assert rig.table.fleets["f"].counters.queued == 1, "they have not even lined up behind it"
    assert len(admission.queue) == 1
    gate.release()
    await until(lambda: not len(admission.queue))
    await until(lambda: len(gate.serving) == 2)
    gate.release()
    gate.release()
    assert [(await one.answer(b"POST")).status for one in (x, y, z)] == [200, 200, 200]
    assert models(replicas[0])["sql"] + models(replicas[1])["sql"] == 3


@pytest.mark.parametrize("strategy", ["least_connections", "least_expected_work"])
async def test_a_queue_full_of_requests_for_an_adapter_keeps_no_others_out(rig: Rig, strategy: str) -> None:
    replicas = await fleet(rig, policy={"strategy": strategy, "max_concurrency": 1, "queue": {"size": 4}})
    gate = Gate(*replicas)
    waiting = await clients(rig, 6)
    for client in waiting:
        client.send(ask("sql"))
    admission = rig.table.fleets["f"].admission
    await until(lambda: len(gate.serving) == 2 and len(admission.queue) == 4)
    busy = await clients(rig, 2)
    for client in busy:
        client.send(ask("f"))
    await until(lambda: len(gate.serving) == 4)
    answers = [asyncio.ensure_future(client.answer(b"POST")) for client in waiting]
    last, chat = await clients(rig, 2)
    last.send(ask("f"))
    await until(lambda: admission.queue.narrow == 3 and len(admission.queue) == 4)
    chat.send(ask("chat"))
    await until(lambda: admission.queue.by_need == {("sql",): 2, ("chat",): 1})
    await until(lambda: sum(answer.done() for answer in answers) == 2)
    displaced = [answer.result() for answer in answers if answer.done()]
    assert [(answer.status, code(answer)) for answer in displaced] == [(503, "queue_full")] * 2
    others = [asyncio.ensure_future(client.answer(b"POST")) for client in (*busy, last, chat)]
    for _ in range(8):
        await until(lambda: gate.serving)
        gate.release()
    statuses = Counter([answer.status for answer in await asyncio.gather(*answers, *others)])
    assert statuses == {200: 8, 503: 2}
    assert not models(replicas[2])["sql"] + models(replicas[3])["sql"]


async def test_who_waits_in_vain_is_told_for_which_adapter(rig: Rig) -> None:
    replicas = await fleet(rig, policy={"max_concurrency": 1, "queue": {"timeout_s": 0.1}})
    gate = Gate(*replicas[:2])
    x, y, z = await clients(rig, 3)
    for client in (x, y):
        client.send(ask("sql"))
    await until(lambda: len(gate.serving) == 2)
    answer = await z.ask(ask("sql"))
    assert (answer.status, code(answer)) == (503, "queue_timeout")
    assert b"no replica of fleet f that serves adapter sql had a free slot" in answer.body
    gate.release()
    gate.release()


async def test_without_an_eligible_replica_the_rejection_names_the_adapter(rig: Rig) -> None:
    replicas = await fleet(rig)
    again(rig, replicas, draining=(replicas[0], replicas[1]))
    client = await rig.client()
    answer = await client.ask(ask("sql"))
    assert (answer.status, code(answer), answer.get(b"retry-after")) == (503, "no_replica", [b"1"])
    assert b"no replica that serves adapter sql is eligible; 2 replicas of fleet f: 2 draining" in answer.body
    assert (await client.ask(ask("chat"))).status == 200
    assert (await client.ask(ask("f"))).status == 200


async def test_an_adapter_that_no_replica_serves_is_named(rig: Rig) -> None:
    await fleet(rig, {"r0": [], "r1": ["sql"], "r2": [], "r3": []})
    client = await rig.client()
    answer = await client.ask(ask("chat"))
    assert (answer.status, code(answer), answer.get(b"retry-after")) == (503, "no_replica", [])
    assert b"no replica of fleet f serves adapter chat" in answer.body
    assert (await client.ask(ask("f"))).status == 200


async def test_retries_stay_where_it_is_served(rig: Rig) -> None:
    replicas = await fleet(rig)
    for replica in (replicas[0], replicas[1]):
        await replica.stop()
    client = await rig.client()
    answer = await client.ask(ask("sql"))
    assert answer.status in (502, 503)
    assert not replicas[2].requests
    assert not replicas[3].requests
    assert (await client.ask(ask("f"))).status == 200


async def test_an_ejected_replica_is_better_than_none(rig: Rig) -> None:
    replicas = await fleet(rig, {"r1": [], "r2": [], "r3": []})
    pool = rig.table.fleets["f"]
    now = asyncio.get_running_loop().time()
    pool.unreachable(pool.replicas[0], "nothing listens", now, again_s=60.0)
    pool.refresh(now)
    assert [one.eligible for one in pool.explain(now)] == [False, True, True, True]
    client = await rig.client()
    assert (await client.ask(ask("sql"))).status == 200
    assert [len(replica.requests) for replica in replicas] == [1, 0, 0, 0]


async def test_a_probe_request_is_one_that_the_replica_can_serve(rig: Rig) -> None:
    await fleet(rig)
    pool = rig.table.fleets["f"]
    now = asyncio.get_running_loop().time()
    replica = pool.replicas[2]
    pool.unreachable(replica, "nothing listens", now, again_s=0.5)
    later = now + 3600.0
    pool.refresh(later)
    found = pool.begin_for_adapters(("sql",), 1.0, later)
    assert isinstance(found, Attempt)
    assert not found.probe
    probing = pool.begin(1.0, later)
    assert isinstance(probing, Attempt)
    assert (probing.probe, probing.replica) == (True, replica)
    for attempt in (found, probing):
        attempt.settle(Outcome.SUCCESS, later)


async def test_a_table_that_changes_what_is_served_holds_for_those_who_wait(rig: Rig) -> None:
    replicas = await fleet(rig, policy={"max_concurrency": 1})
    gate = Gate(*replicas[:2])
    x, y, z = await clients(rig, 3)
    for client in (x, y):
        client.send(ask("sql"))
    await until(lambda: len(gate.serving) == 2)
    z.send(ask("sql"))
    await until(lambda: len(rig.table.fleets["f"].admission.queue) == 1)
    again(rig, replicas, {"r0": ["sql"], "r1": ["sql"], "r2": ["sql"]}, policy={"max_concurrency": 1})
    assert (await z.answer(b"POST")).status == 200
    assert models(replicas[2]) + models(replicas[3]) == Counter({"sql": 1})
    gate.release()
    gate.release()


async def test_an_adapter_has_a_home_while_that_has_room(rig: Rig) -> None:
    """Of a fleet all of whose replicas serve all."""
    replicas = [await rig.replica() for _ in range(4)]
    for replica in replicas:
        replica.script = answer_body(CHAT_BODY)
    adapters = tuple(f"a{number}" for number in range(8))
    rig.fleet(*replicas, protocol="openai", adapters=adapters, policy=policy(max_concurrency=1))
    client = await rig.client()
    for _ in range(5):
        for adapter in adapters:
            assert (await client.ask(ask(adapter))).status == 200
    seen = [models(replica) for replica in replicas]
    homes = [[number for number, one in enumerate(seen) if one[adapter]] for adapter in adapters]
    assert [len(home) for home in homes] == [1] * 8
    assert len({number for (number,) in homes}) > 1
    # While the home is full, the next one is asked.
    home = replicas[homes[0][0]]
    gate = Gate(home)
    first = await rig.client()
    first.send(ask("a0"))
    await until(lambda: gate.serving)
    assert (await client.ask(ask("a0"))).status == 200
    gate.release()
    assert (await first.answer(b"POST")).status == 200


async def test_a_prompt_for_an_adapter_beside_the_model_is_another_prompt(rig: Rig) -> None:
    """What a replica keeps of a prompt for one adapter is of no use to another."""
    replicas = [await rig.replica() for _ in range(8)]
    for replica in replicas:
        replica.script = answer_body(CHAT_BODY)
    adapters = tuple(f"a{number}" for number in range(8))
    rig.fleet(*replicas, protocol="openai", adapters=adapters, policy=policy("prefix_affinity"))
    client = await rig.client()
    long = "word " * 500
    for _ in range(3):
        for beside in ({}, *({"lora_path": adapter} for adapter in adapters)):
            assert (await client.ask(ask("f", user=long, prompt=long, **beside))).status == 200
    counters = rig.table.fleets["f"].counters
    assert (counters.affinity_new, counters.affinity_kept) == (9, 18)
