"""Byte-level cases of responses (section E): what a replica sends, and what the client must get."""

from dataclasses import dataclass, field

import pytest

from tests.proxy.rig import OK, OK_ANSWER, Client, Replica, Rig, answer_bytes, until

CANARY = b"GET /canary HTTP/1.1\r\nHost: a.test\r\n\r\n"
EVIL = OK + b"Content-Length: 4\r\n\r\nEVIL"


@dataclass
class Case:
    id: str
    answer: bytes
    status: int = 200
    body: bytes = b""
    then: str = ""
    """What the replica does after writing: nothing, ``fin`` or ``rst``."""
    method: bytes = b"GET"
    version: bytes = b"1.1"
    before: tuple[int, ...] = ()
    """1xx that the client gets first."""
    complete: bool = True
    reused: bool = False
    """Whether the connection to the replica may serve another request."""
    has: dict[bytes, list[bytes]] = field(default_factory=dict)
    """Fields of the client's response."""


EARLY_HINTS = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
HEAD_5 = OK + b"Content-Length: 5\r\n\r\n"
OK_CLOSE = OK + b"Connection: close\r\nContent-Length: 2\r\n\r\nok"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
CASES = [
    Case("E01", OK_ANSWER, body=b"ok", reused=True),
    Case("E02", HEAD_5, method=b"HEAD", reused=True, has={b"content-length": [b"5"]}),
    Case("E02b", CHUNKED, method=b"HEAD", reused=True, has={b"content-length": []}),
    Case("E03 empty chunked", CHUNKED + b"0\r\n\r\n", reused=True),
    Case(
        "E04",
        b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello",
        status=204,
        has={b"content-length": []},
    ),
    Case(
        "E04b",
        b"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        status=204,
        has={b"transfer-encoding": []},
    ),
    Case("E05", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", status=304, reused=True),
    Case("E06", EARLY_HINTS + OK_ANSWER, body=b"ok", before=(103,), reused=True),
    Case("E06b", EARLY_HINTS + OK_ANSWER, body=b"ok", version=b"1.0", reused=True),
    Case("E06c 100", b"HTTP/1.1 100 Continue\r\n\r\n" + OK_ANSWER, body=b"ok", reused=True),
    Case("E07 101", b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: foo\r\n\r\nraw", status=502),
    Case("E08", OK + b"Transfer-Encoding: chunked\r\nContent-Length: 30\r\n\r\n0\r\n\r\n", status=502),
    Case("E09", OK + b"Content-Length: foo\r\n\r\n", status=502),
    Case("E09b twice", OK + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\nok", status=502),
    Case("E10", OK + b"Transfer-Encoding: foo\r\n\r\nabc", then="fin", status=502),
    Case(
        "E10b",
        OK + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        status=502,
    ),
    Case("E11", b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", body=b"ok"),
    Case("E11b 1.0", b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", body=b"ok"),
    Case("E12", OK + b"X-A: 1\r\n 2\r\nContent-Length: 2\r\n\r\nok", status=502),
    Case("E13 LF", b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok", status=502),
    Case("E14", OK + b"X-A: a\x00b\r\nContent-Length: 2\r\n\r\nok", status=502),
    Case("E14b", OK + b"X-A: a\rSet-Cookie: x=1\r\nContent-Length: 2\r\n\r\nok", status=502),
    Case("E15 not HTTP", b"SSH-2.0-OpenSSH_9.2\r\n", status=502),
    Case("E16", OK_ANSWER + EVIL, body=b"ok"),
    Case("E18 short", OK + b"Content-Length: 5\r\n\r\nok", then="fin", body=b"ok", complete=False),
    Case("E19", CHUNKED + b"5\r\nhello\r\n", then="fin", body=b"hello", complete=False),
    Case("E19b bad size", CHUNKED + b"5\r\nhello\r\n0x1\r\n", status=502),
    Case("E20", CHUNKED + b"5\r\nhello\r\n", then="rst", body=b"hello", complete=False),
    Case("E21", OK + b"\r\nhello", then="fin", body=b"hello"),
    Case("E21b to 1.0", OK + b"\r\nhello", then="fin", body=b"hello", version=b"1.0"),
    Case(
        "E22",
        CHUNKED + b"5\r\nhello\r\n0\r\n\r\n",
        body=b"hello",
        version=b"1.0",
        reused=True,
        has={b"transfer-encoding": []},
    ),
    Case("E23b", b"HTTP/1.1 99 X\r\nContent-Length: 0\r\n\r\n", status=502),
    Case("E23c", b"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n", status=502),
    Case("E24 no reason", b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok", body=b"ok", reused=True),
    Case(
        "E25",
        OK
        + b"Connection: X-Sec\r\nX-Sec: 1\r\nKeep-Alive: timeout=1\r\n"
        + b"Upgrade: h2c\r\nContent-Length: 2\r\n\r\nok",
        body=b"ok",
        reused=True,
        has={b"x-sec": [], b"keep-alive": [], b"upgrade": [], b"connection": []},
    ),
    Case("E25b close", OK_CLOSE, body=b"ok", has={b"connection": []}),
    Case(
        "E26",
        OK
        + b"Transfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n"
        + b"5\r\nhello\r\n0\r\nX-T: 1\r\nSet-Cookie: t=1\r\n\r\n",
        body=b"hello",
        reused=True,
        has={b"x-t": [], b"set-cookie": [], b"trailer": []},
    ),
    Case(
        "E27 Set-Cookie twice",
        OK + b"Set-Cookie: a=1\r\nSet-Cookie: b=2\r\nContent-Length: 0\r\n\r\n",
        reused=True,
        has={b"set-cookie": [b"a=1", b"b=2"]},
    ),
    Case("E28", b"", then="fin", status=502, method=b"POST"),
    Case("E29", b"", then="rst", status=502, method=b"POST"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
async def test_case(case: Case, rig: Rig, replica: Replica, client: Client) -> None:
    replica.script = answer_bytes(case.answer, case.then)
    client.send(b"%b /x HTTP/%b\r\nHost: a.test\r\n\r\n" % (case.method, case.version))
    for status in case.before:
        assert (await client.answer()).status == status
    answer = await client.answer(case.method)
    assert answer.status == case.status
    assert answer.complete == case.complete
    if case.status != 502:
        assert answer.body == case.body
    for name, values in case.has.items():
        assert answer.get(name) == values
    if not case.complete:
        assert await client.ends() == b""
    await judge_connection(case, rig, replica)


async def judge_connection(case: Case, rig: Rig, replica: Replica) -> None:
    """A connection that may not be used again is closed; the next client gets a clean answer."""
    first = replica.connections[0]
    if not case.reused:
        await until(lambda: first.closed)
    replica.script = answer_bytes(OK_ANSWER)
    other = await rig.client()
    answer = await other.ask(CANARY)
    assert (answer.status, answer.body) == (200, b"ok")
    assert (replica.requests[-1].connection is first) == case.reused


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
async def test_case_after_another(case: Case, rig: Rig, replica: Replica, client: Client) -> None:
    """The same on connections that have served a request before."""
    assert (await client.ask(CANARY)).body == b"ok"
    replica.script = answer_bytes(case.answer, case.then)
    client.send(b"%b /x HTTP/%b\r\nHost: a.test\r\n\r\n" % (case.method, case.version))
    for status in case.before:
        assert (await client.answer()).status == status
    answer = await client.answer(case.method)
    assert (answer.status, answer.complete) == (case.status, case.complete)


async def test_e17_late_unsolicited_response(rig: Rig, replica: Replica, client: Client) -> None:
    """Bytes on an idle connection make it useless; nobody ever gets them."""
    assert (await client.ask(CANARY)).body == b"ok"
    idle = replica.connections[0]
    idle.transport.write(EVIL)
    await until(lambda: idle.closed)
    assert (await client.ask(CANARY)).body == b"ok"
    assert replica.requests[-1].connection is not idle


async def test_head_split_anywhere(rig: Rig, replica: Replica, client: Client) -> None:
    """A response head that arrives in two segments, cut at each place."""
    whole = EARLY_HINTS + OK + b"X-A: 1\r\nContent-Length: 2\r\n\r\nok"
    import asyncio

    for cut in range(1, len(whole)):

        async def script(connection, seen, cut=cut):  # type: ignore[no-untyped-def]
            connection.transport.write(whole[:cut])
            await asyncio.sleep(0)
            connection.transport.write(whole[cut:])

        replica.script = script
        client.send(CANARY)
        assert (await client.answer()).status == 103
        answer = await client.answer()
        assert (answer.status, answer.body, answer.get(b"x-a")) == (200, b"ok", [b"1"])
