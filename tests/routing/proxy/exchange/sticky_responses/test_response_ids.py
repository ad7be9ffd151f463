"""Which response ids the proxy learns from answers, and which it finds in paths."""

import asyncio

import pytest

from routing.http.chunked import encode_chunk
from routing.http.write_tap import WriteTap
from routing.protocols import openai_responses
from routing.shared.sticky_ids import MAX_ID_CHARS, STICKY_TTL_S, ReplicaRef, StickyIds
from tests.routing.proxy.exchange.sticky_responses.response_fleet import (
    Elsewhere,
    Fleet,
    ask,
    by,
    create,
)
from tests.routing.proxy.rig import OK, ReplicaConnection, Seen


@pytest.mark.parametrize("pieces", [1, 3, 60])
@pytest.mark.parametrize("before", [b"", b": ping\n\n", b"event: ping\ndata: {}\n\n"])
async def test_a_streamed_response_is_known_from_its_first_event(
    pieces: int, before: bytes, fleet: Fleet
) -> None:
    for server in (fleet.a, fleet.b):
        server.pieces, server.before = pieces, before
    for _ in range(2):
        answer = await fleet.client.ask(create(stream=True))
        assert answer.body.endswith(b'"response.completed"}\n\n')
        kept = fleet.a if by(answer) == "a" else fleet.b
        assert await fleet.turns(list(kept.kept)[-1]) == [(200, by(answer))] * 4


async def test_a_streamed_response_is_known_while_it_goes_on(fleet: Fleet) -> None:
    """Whoever reads its id may cancel it at once."""
    go_on = asyncio.Event()

    async def script(connection: ReplicaConnection, seen: Seen) -> None:
        if seen.line.startswith(b"POST /v1/responses "):
            fields = b"Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
            connection.transport.write(
                OK + fields + encode_chunk(b'data: {"response": {"id": "resp_x"}}\n\n')
            )
            await go_on.wait()
            connection.transport.write(b"0\r\n\r\n")
        else:
            connection.transport.write(OK + b"Content-Length: 2\r\n\r\n{}")

    fleet.a.replica.script = fleet.b.replica.script = script
    streaming = await fleet.rig.client()
    streaming.send(create(stream=True, background=True))
    head = await streaming.reader.readuntil(b"resp_x")
    for _ in range(3):
        answer = await fleet.client.ask(ask("POST /v1/responses/resp_x/cancel"))
        assert b"x-switchyard-replica: " + by(answer).encode() in head
    go_on.set()


async def test_what_is_not_stored_is_not_remembered(fleet: Fleet) -> None:
    keepers = fleet.rig.proxy.sticky_registry
    await fleet.make(store=False)
    assert keepers.find("resp_not_kept") is None

    async def said(connection: ReplicaConnection, seen: Seen) -> None:
        body = b'{"id": "resp_said", "store": false}'
        connection.transport.write(OK + b"Content-Length: %d\r\n\r\n%b" % (len(body), body))

    fleet.a.replica.script = fleet.b.replica.script = said
    await fleet.make(store=True)
    assert keepers.find("resp_said") is None


async def test_nothing_is_learned_elsewhere(fleet: Fleet) -> None:
    async def said(connection: ReplicaConnection, seen: Seen) -> None:
        body = b'{"id": "resp_x"}'
        status = b"HTTP/1.1 400 X\r\n" if b"fail" in seen.body else OK
        connection.transport.write(status + b"Content-Length: %d\r\n\r\n%b" % (len(body), body))

    fleet.a.replica.script = fleet.b.replica.script = said
    for line in (
        "chat/completions",
        "responses/input_tokens",
        "responses/compact",
        "embeddings",
        "responsesx",
    ):
        assert (await fleet.client.ask(ask(f"POST /v1/{line}", {"model": "f"}))).status == 200
    assert (await fleet.client.ask(ask("GET /v1/responses"))).status == 200
    assert (await fleet.client.ask(create(input="fail"))).status == 400
    assert fleet.rig.proxy.sticky_registry.find("resp_x") is None
    # The connection goes on, and what is heard next belongs to the next request.
    await fleet.make()
    assert fleet.rig.proxy.sticky_registry.find("resp_x") is not None
    fleet.table(protocol="generic")
    fleet.rig.proxy.sticky_registry._ids = StickyIds()
    assert (await fleet.client.ask(create())).status == 200
    assert fleet.rig.proxy.sticky_registry.find("resp_x") is None


async def test_what_comes_before_and_after_the_answer_is_no_part_of_it(fleet: Fleet) -> None:
    early = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"

    async def hints(connection: ReplicaConnection, seen: Seen) -> None:
        connection.transport.write(early + OK + b'Content-Length: 16\r\n\r\n{"id": "resp_1"}')

    async def events(connection: ReplicaConnection, seen: Seen) -> None:
        name = b"resp_3" if seen.line.startswith(b"POST /v1/chat") else b""
        data = b'data: {"response": {"id": "%b"}}\n\n' % name if name else b"data: {}\n\n"
        head = b"Content-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n" % len(data)
        connection.transport.write(OK + head + data)

    keepers = fleet.rig.proxy.sticky_registry
    fleet.a.replica.script = fleet.b.replica.script = hints
    fleet.client.send(create())
    assert (await fleet.client.answer()).status == 103
    assert (await fleet.client.answer()).status == 200
    assert keepers.find("resp_1") is not None
    fleet.a.replica.script = fleet.b.replica.script = events
    # This one never says an id; the one after it is no response.
    for line in ("responses", "chat/completions", "responses", "responses"):
        answer = await fleet.client.ask(ask(f"POST /v1/{line}", {"model": "f"}))
        assert answer.status == 200
    assert keepers.find("resp_3") is None
    (connection,) = fleet.rig.proxy._clients
    write = connection.write
    assert isinstance(write, WriteTap)
    assert not isinstance(write._write, WriteTap), "those who never hear an id do not pile up"


def test_paths() -> None:
    def named(line: str) -> str | None:
        method, target = line.encode().split(b" ")
        return openai_responses.id_in_path(method, target)

    for line in (
        "POST /v1/responses",
        "POST /v1/responses/",
        "POST /v1/responses?x=/1",
        "POST /v1/conversations",
    ):
        assert named(line) == "", line
    for line in (
        "GET /v1/responses/r-1",
        "HEAD /v1/responses/r-1/",
        "DELETE /v1/responses/r-1?a=b/c",
        "POST /v1/responses/r-1/cancel",
        "GET /v1/responses/r%2D1/input_items/more?x",
        "POST /v1/conversations/r-1",
    ):
        assert named(line) == "r-1", line
    for line in (
        "GET /v1/responses",
        "POST /v1/responses/input_tokens",
        "POST /v1/responses/compact?x=1/2",
        "POST /v1/responsesx",
        "GET /v1/chat/completions",
        "GET /x/v1/responses/r-1",
        "GET /v1/models",
    ):
        assert named(line) is None, line


async def test_another_fleet_does_not_take_over_an_id(fleet: Fleet) -> None:
    """Its replica may say any, also one that it has read in a request of somebody who may use both fleets."""
    keepers = fleet.rig.proxy.sticky_registry
    others = Elsewhere(fleet.rig)
    name, replica = await fleet.make()
    first = ReplicaRef("f", f"f-{replica}", replica)
    other = await fleet.rig.replica("other")
    fleet.rig.fleet(other, name="others", protocol="openai", default=False)

    async def says_the_same(connection: ReplicaConnection, seen: Seen) -> None:
        body = b'{"id": "%b"}' % name.encode()
        connection.transport.write(OK + b"Content-Length: %d\r\n\r\n%b" % (len(body), body))

    other.script = says_the_same
    others.shared.clear()
    answer = await fleet.client.ask(create("others", previous_response_id=name))
    assert (answer.status, by(answer)) == (200, "other")
    assert keepers.find(name) == first
    assert others.shared == {}
    assert await fleet.turns(name, 2) == [(200, replica)] * 2
    answer = await fleet.client.ask(ask(f"GET /v1/responses/{name}"))
    assert (answer.status, by(answer)) == (200, replica)


def test_an_id_stays_with_the_replica_that_was_heard_of_first() -> None:
    first, second = ReplicaRef("f", "u", "r"), ReplicaRef("g", "v", "s")
    renamed = first._replace(replica="q")
    ids = StickyIds()
    assert ids.learn("id", first, 0.0)
    assert not ids.learn("id", second, STICKY_TTL_S / 2)
    assert not ids.learn("id", first._replace(fleet="g"), STICKY_TTL_S / 2)
    assert ids.all() == [("id", first)]
    assert ids.learn("id", renamed, STICKY_TTL_S / 2)
    assert not ids.learn("id", second, STICKY_TTL_S + 1)
    assert ids.find("id", STICKY_TTL_S + 1) == renamed
    # Once it is forgotten, another one may have it.
    assert ids.learn("id", second, 3 * STICKY_TTL_S)
    assert ids.find("id", 3 * STICKY_TTL_S) == second
    for name in ("id", "unknown"):
        ids.correct(name, first)
    assert ids.all() == [("id", first)]


def test_who_has_learned_another_replica_hears_of_the_first_one() -> None:
    first, second = ReplicaRef("f", "u", "r"), ReplicaRef("g", "v", "s")
    ids = StickyIds()
    assert [ids.settle("id", first, 0.0) for _ in range(2)] == [None, None]
    assert ids.settle("id", second, 1.0) == first
    # Elsewhere it was the other way round.
    assert ids.overrule("id", second, 2.0) == second
    assert ids.settle("id", first, 3.0) == second
    assert ids.overrule("id", second, 4.0) is None
    assert ids.overrule("new", first, 4.0) is None
    assert ids.settle("", first, 4.0) is None
    assert ids.all() == [("id", second), ("new", first)]


def test_ids_are_bounded_in_number_length_and_age() -> None:
    place = ReplicaRef("f", "u", "r")
    ids = StickyIds(most=3)
    for number in range(3):
        assert ids.learn(f"id{number}", place, float(number))
    assert ids.find("id0", 3.0) == place
    ids.learn("id3", place, 4.0)
    # What was used longest ago has gone.
    assert [ids.find(f"id{number}", 5.0) for number in range(4)] == [place, None, place, place]
    assert not ids.learn("x" * (MAX_ID_CHARS + 1), place, 5.0)
    assert not ids.learn("", place, 5.0)
    assert ids.find("id2", 5.0 + STICKY_TTL_S - 1) == place
    assert ids.find("id0", 5.0 + STICKY_TTL_S + 1) is None
    assert ids.find("id2", 5.0 + STICKY_TTL_S + 1) == place
    ids.learn("new", place, 4 * STICKY_TTL_S)
    assert len(ids) == 1
