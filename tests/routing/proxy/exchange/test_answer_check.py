"""Responses with 200 that are no answers: counted at their replica, retried elsewhere if it is suspected."""

import asyncio
from dataclasses import dataclass

import pytest

from routing.balancing.outlier import inspection
from routing.balancing.outlier.ejection import NO_RESULT
from routing.balancing.pool.pool import Pool
from routing.balancing.replica.state import Replica as Known
from routing.contract.policy import Policy, Retries
from routing.contract.table import ApiProtocol
from tests.routing.proxy.rig import OK, Answer, Client, Replica, ReplicaConnection, Rig, Script, Seen

POLICY = Policy(strategy="round_robin", slow_start_s=0, retries=Retries(budget_percent=100.0))
JSON, EVENTS = b"application/json", b"text/event-stream"
CHAT = b'{"choices": [{"message": {"role": "assistant", "content": "Hello"}}]}'
EMPTY = CHAT.replace(b"Hello", b"")
USAGE = b'{"choices": [{"message": {"content": "Hello"}}], "usage": {"completion_tokens": 1}}'
WORD = b'data: {"choices":[{"delta":{"content":"word"}}]}\n\n'
DONE = b"data: [DONE]\n\n"
TENSORS = b'{"outputs": [{"name": "y", "shape": [1], "data": [3]}]}'


def answers(body: bytes, kind: bytes = JSON, way: str = "whole", more: bytes = b"") -> Script:
    """``way``: ``whole``, ``head first`` (as many servers write), or ``chunks``, one after the other."""

    async def script(connection: ReplicaConnection, seen: Seen) -> None:
        head = OK + b"Content-Type: " + kind + b"\r\n" + more
        write = connection.transport.write
        if way == "whole":
            write(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            return
        if way == "head first":
            write(head + b"Content-Length: %d\r\n\r\n" % len(body))
            await asyncio.sleep(0.01)
            write(body)
            return
        write(head + b"Transfer-Encoding: chunked\r\n\r\n")
        for piece in body.splitlines(keepends=True) or [b""]:
            await asyncio.sleep(0.005)
            write(b"%x\r\n%b\r\n" % (len(piece), piece) if piece else b"")
        write(b"0\r\n\r\n")

    return script


@dataclass
class Fleet:
    """Four replicas, of which the first may be at fault."""

    rig: Rig
    client: Client
    replicas: list[Replica]
    pool: Pool

    @property
    def known(self) -> Known:
        """The first one, as the pool sees it."""
        return self.pool.replicas[0]

    def all_but_the_first(self, script: Script) -> None:
        for replica in self.replicas[1:]:
            replica.script = script

    async def ask(self, times: int, path: bytes = b"/v1/chat/completions") -> list[Answer]:
        request = b"POST /fleets/f%b HTTP/1.1\r\nHost: a.test\r\nContent-Length: 2\r\n\r\n{}" % path
        told = []
        for _ in range(times):
            told.append(await self.client.ask(request))
            for replica in self.pool.replicas:
                # Here each response is looked at, as with a request each slow timer.
                inspection.follow(replica, 4, replica.last_heard_at + 1.0)
        return told


async def fleet_of(rig: Rig, protocol: ApiProtocol = "openai", policy: Policy = POLICY) -> Fleet:
    replicas = [await rig.replica() for _ in range(4)]
    rig.fleet(*replicas, policy=policy, protocol=protocol)
    return Fleet(rig, await rig.client(), replicas, rig.table.fleets["f"])


NONE_OF_CHAT = [
    pytest.param(answers(b"{}"), answers(CHAT), id="object"),
    pytest.param(answers(b"it works", b"text/html"), answers(USAGE), id="page"),
    pytest.param(answers(b"{}", way="head first"), answers(CHAT, way="head first"), id="head first"),
    pytest.param(answers(b"{}", way="chunks"), answers(CHAT, way="chunks"), id="chunks"),
    pytest.param(answers(DONE, EVENTS, "chunks"), answers(WORD + DONE, EVENTS, "chunks"), id="empty stream"),
]


@pytest.mark.parametrize(("wrong", "right"), NONE_OF_CHAT)
async def test_it_is_out_after_a_few(rig: Rig, wrong: Script, right: Script) -> None:
    fleet = await fleet_of(rig)
    fleet.all_but_the_first(right)
    fleet.replicas[0].script = wrong
    told = await fleet.ask(60)
    assert {answer.status for answer in told} == {200}
    assert fleet.known.ejection.cause == NO_RESULT
    assert len(fleet.replicas[0].requests) <= 7
    assert fleet.known.outcomes.without_result >= 2
    assert not any(replica.ejection.until for replica in fleet.pool.replicas[1:])


async def test_no_client_gets_an_empty_response(rig: Rig) -> None:
    """It is truncated, and so never an answer."""
    fleet = await fleet_of(rig)
    fleet.all_but_the_first(answers(CHAT))
    fleet.replicas[0].script = answers(b"")
    told = await fleet.ask(60)
    assert {answer.body for answer in told} == {CHAT}
    assert fleet.known.ejection.until
    assert len(fleet.replicas[0].requests) <= 7


async def test_the_clients_get_answers_once_it_is_suspected(rig: Rig) -> None:
    fleet = await fleet_of(rig)
    fleet.all_but_the_first(answers(CHAT))
    fleet.replicas[0].script = answers(b"{}")
    told = await fleet.ask(60)
    assert sum(answer.body != CHAT for answer in told) <= 3
    retried = [answer for answer in told if answer.get(b"x-switchyard-retry-reason") == [b"without_result"]]
    assert retried
    assert all(answer.body == CHAT for answer in retried)


async def test_what_may_not_be_sent_twice_is_forwarded_as_it_came(rig: Rig) -> None:
    policy = Policy(strategy="round_robin", slow_start_s=0, retries=Retries(replay_safe="never"))
    fleet = await fleet_of(rig, policy=policy)
    fleet.all_but_the_first(answers(CHAT))
    fleet.replicas[0].script = answers(b"{}")
    told = await fleet.ask(60)
    assert sum(answer.body == b"{}" for answer in told) == len(fleet.replicas[0].requests)
    assert not fleet.pool.counters.retries
    assert fleet.known.ejection.until


async def test_it_is_back_with_its_first_answer(rig: Rig) -> None:
    fleet = await fleet_of(rig)
    fleet.all_but_the_first(answers(CHAT))
    fleet.replicas[0].script = answers(b"{}")
    await fleet.ask(60)
    fleet.replicas[0].script = answers(CHAT)
    fleet.known.ejection.until = 1.0  # its probe request is due
    fleet.pool.refresh(fleet.known.last_heard_at)
    await fleet.ask(8)
    assert not fleet.known.ejection.until
    assert fleet.pool.counters.errors == 0


@pytest.mark.parametrize("call", [b"/v1/models/x", b"/v1/rerank", b"/work"])
async def test_other_calls_are_not_judged(rig: Rig, call: bytes) -> None:
    fleet = await fleet_of(rig)
    fleet.all_but_the_first(answers(CHAT))
    fleet.replicas[0].script = answers(b"{}")
    await fleet.ask(60, call)
    assert not fleet.known.ejection.count
    assert not fleet.known.outcomes.without_result


@pytest.mark.parametrize(
    ("protocol", "script"),
    [
        ("generic", answers(b"{}")),
        ("openai", answers(b"\x1f\x8b", more=b"Content-Encoding: gzip\r\n")),
        ("openai", answers(USAGE)),
        ("openai", answers(EMPTY)),
        ("openai", answers(WORD + DONE, EVENTS, "chunks")),
        ("openai", answers(WORD + DONE, EVENTS)),
    ],
)
async def test_what_is_not_judged_or_is_an_answer(rig: Rig, protocol: ApiProtocol, script: Script) -> None:
    fleet = await fleet_of(rig, protocol)
    fleet.all_but_the_first(answers(CHAT))
    fleet.replicas[0].script = script
    await fleet.ask(60)
    assert not fleet.known.ejection.count
    assert not fleet.known.ejection.results.missing


async def test_tensors(rig: Rig) -> None:
    fleet = await fleet_of(rig, "open-inference")
    fleet.all_but_the_first(answers(TENSORS))
    fleet.replicas[0].script = answers(b'{"model_name": "f"}')
    await fleet.ask(60, b"/v2/models/f/infer")
    assert fleet.known.ejection.cause == NO_RESULT


async def test_where_all_respond_so_nothing_is_held_against_any(rig: Rig) -> None:
    fleet = await fleet_of(rig)
    for replica in fleet.replicas:
        replica.script = answers(b'{"answer": 42}')
    told = await fleet.ask(200)
    assert {answer.body for answer in told} == {b'{"answer": 42}'}
    assert not any(replica.ejection.count for replica in fleet.pool.replicas)
    assert not any(replica.outcomes.without_result for replica in fleet.pool.replicas)


@pytest.mark.parametrize("way", ["whole", "head first", "chunks"])
async def test_empty_answers_are_told_from_whole_ones_where_there_is_doubt(rig: Rig, way: str) -> None:
    fleet = await fleet_of(rig)
    fleet.all_but_the_first(answers(CHAT))
    fleet.replicas[0].script = answers(EMPTY, way=way)
    doubt = fleet.known.doubt
    doubt.since, doubt.believed = 1.0, {}
    fleet.pool.refresh(1.0)
    assert fleet.known.inspected
    await fleet.ask(8)
    assert doubt.empty >= 1
    assert doubt.whole == 0
    fleet.replicas[0].script = answers(CHAT, way=way)
    doubt.empty = 0
    await fleet.ask(8)
    assert doubt.whole >= 1
    assert doubt.empty == 0
