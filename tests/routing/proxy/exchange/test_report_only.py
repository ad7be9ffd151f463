"""Fleets from before ``expose``: what is counted is what ``inference`` refuses, also of bodies that are still
coming, and the log says it once."""

import gzip
import json

import pytest

from routing.proxy import ProxySettings
from tests.routing.proxy.exchange.test_exposed_models import FILE, FORM, JSON, field, form
from tests.routing.proxy.rig import Answer, Client, Replica, Rig, StartRig, until

LARGE = b"x" * 100_000
CHAT = "POST /fleets/a/v1/chat/completions"


def body_of(**members: object) -> bytes:
    return json.dumps(members).encode()


BODIES = {
    "own model, first": (body_of(model="a", prompt=LARGE.decode()), JSON, 200),
    "own model, last": (body_of(prompt=LARGE.decode(), model="a"), JSON, 200),
    "own model in a form": (form((FILE, LARGE), (field("model"), b"a")), FORM, 200),
    "another model, first": (body_of(model="b", prompt=LARGE.decode()), JSON, 403),
    "another model, last": (body_of(prompt=LARGE.decode(), model="b"), JSON, 403),
    "another model in a form": (form((FILE, LARGE), (field("model"), b"b")), FORM, 403),
    "none": (body_of(prompt=LARGE.decode()), JSON, 400),
    "none in a form": (form((FILE, LARGE)), FORM, 400),
    "two": (b'{"model": "a", "prompt": "%b", "model": "b"}' % LARGE, JSON, 400),
    "encoded": (gzip.compress(body_of(model="a"), 0) + LARGE, JSON + "Content-Encoding: gzip\r\n", 415),
    "a list": (b"[%b]" % (b"1," * 50_000 + b"1"), JSON, 400),
}


async def ask(
    client: Client,
    line: str,
    body: bytes,
    fields: str,
    *,
    chunked: bool = False,
    server: Replica | None = None,
) -> Answer:
    """``server``: the second half of the body is sent once it has the first."""
    method, path = line.split(" ")
    framing = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {len(body)}"
    client.send(f"{method} {path} HTTP/1.1\r\nHost: a.test\r\n{fields}{framing}\r\n\r\n".encode())
    half = len(body) // 2
    before = 0 if server is None else received(server)
    for piece in (body[:half], body[half:]):
        client.send(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
        if server is not None and piece == body[:half]:
            await until(lambda: received(server) > before + half)
    if chunked:
        client.send(b"0\r\n\r\n")
    return await client.answer(b"POST")


def received(server: Replica) -> int:
    return sum(len(connection.received) for connection in server.connections)


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("what", BODIES)
async def test_a_large_body_is_counted_as_it_would_be_judged(rig: Rig, what: str, chunked: bool) -> None:
    server, client = await rig.replica("server"), await rig.client()
    body, fields, status = BODIES[what]
    for name in ("b", "a"):
        rig.fleet(server, name=name, protocol="openai")
    answer = await ask(client, CHAT, body, fields, chunked=chunked, server=server)
    assert (answer.status, server.requests[-1].body) == (200, body)
    counters = rig.table.fleets["a"].counters
    assert counters.would_refuse == (status != 200)
    # What was counted is what comes true.
    for name in ("b", "a"):
        rig.fleet(server, name=name, protocol="openai", expose="inference")
    answer = await ask(await rig.client(), CHAT, body, fields, chunked=chunked)
    assert answer.status == status, answer.body
    assert counters.not_exposed == (status != 200)


async def test_a_body_that_is_too_large_to_be_searched(start_rig: StartRig) -> None:
    rig = await start_rig(ProxySettings(peek_bytes=1000))
    server, client = await rig.replica("server"), await rig.client()
    for name in ("b", "a"):
        rig.fleet(server, name=name, protocol="openai")
    counters = rig.table.fleets["a"].counters
    for expected, chunked in enumerate((False, True), 1):
        body = body_of(model="a", prompt=LARGE.decode())
        await ask(client, CHAT, body, JSON, chunked=chunked, server=server)
        assert counters.would_refuse == expected
    await ask(client, CHAT, form((field("model"), b"a"), (FILE, LARGE)), FORM, server=server)
    assert counters.would_refuse == 2, "a form is read while it is forwarded"


async def test_an_alias_is_the_fleet_s_own(rig: Rig) -> None:
    server, client = await rig.replica("server"), await rig.client()
    rig.fleet(server, name="a", protocol="openai", aliases=("gpt",), served_model="org/A")
    for name in ("a", "gpt", "org/A"):
        await ask(client, CHAT, body_of(prompt=LARGE.decode(), model=name), JSON)
    assert rig.table.fleets["a"].counters.would_refuse == 0


async def test_the_log_says_each_once_over_table_swaps(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    replica, client = await rig.replica(), await rig.client()
    for _ in range(3):
        rig.fleet(replica, protocol="openai")
        for path in ("/sleep", "/metrics"):
            await client.ask(f"GET /fleets/f{path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    told = [record.getMessage() for record in caplog.records if "has no expose" in record.message]
    assert len(told) == 2, told
    for number in range(30):
        rig.fleet(replica, protocol="openai", served_model="x")
        path = f"/v1/chat/completions?model={number}%0d%0aforged%E2%80%A8%1b[2J%C3%A9" + "x" * 1000
        await client.ask(f"POST /fleets/f{path} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n".encode())
    told = [record.getMessage() for record in caplog.records if "has no expose" in record.message]
    assert len(told) == 20
    assert all(line.isascii() and line.isprintable() and len(line) < 800 for line in told)
    assert "no more of them are logged" in told[-1]
    assert rig.table.fleets["f"].counters.would_refuse == 36
