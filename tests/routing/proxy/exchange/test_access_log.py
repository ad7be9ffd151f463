"""The access log: one line for each request, whatever its end; never what a client keeps secret."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from routing.contract.policy import Policy
from routing.http.local_response import CONTINUE
from routing.http.write_tap import WriteTap
from routing.ipc.access_log import AccessLine, AccessLog
from tests.fuzzing.wire import Wire
from tests.routing.proxy.exchange.test_tunnel import ASKED, switch
from tests.routing.proxy.rig import Client, Replica, ReplicaConnection, Rig, Seen, answer_bytes, until

FIELDS = {
    *("time", "level", "logger", "message", "process", "request_id", "trace_id", "client"),
    *("method", "path", "fleet"),
    *("replica", "status", "outcome", "code", "retries", "second", "fallback", "asked_fleet", "continued"),
    *("bytes", "first_byte_ms", "ms"),
}


class Lines:
    """The lines of a log that a rig's proxy writes."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.log = AccessLog(str(file), "json", "proxy/worker/0")

    def read(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.file.read_text().splitlines()]

    async def wait(self, number: int) -> list[dict[str, Any]]:
        await until(lambda: len(self.read()) >= number)
        assert len(self.read()) == number
        return self.read()


@pytest.fixture
async def lines(rig: Rig, tmp_path: Path) -> AsyncIterator[Lines]:
    found = Lines(tmp_path / "access.log")
    rig.proxy.log_to(found.log)
    yield found
    found.log.close()


async def test_an_answered_request(rig: Rig, replica: Replica, client: Client, lines: Lines) -> None:
    head = b"GET /v9/secrets?token=abc HTTP/1.1\r\nHost: p\r\nAuthorization: Bearer sesame\r\n"
    answer = await client.ask(head + b"X-Request-Id: me-1\r\n\r\n")
    (line,) = await lines.wait(1)
    assert set(line) == FIELDS
    assert (line["method"], line["path"], line["status"]) == ("GET", "/v9/secrets", 200)
    assert (line["fleet"], line["replica"], line["outcome"], line["retries"]) == ("f", "r0", "answered", 0)
    assert (line["request_id"], line["client"]) == ("me-1", "127.0.0.1")
    assert line["bytes"] == len(answer.head) + len(answer.body)
    assert 0 < line["first_byte_ms"] <= line["ms"]
    assert "sesame" not in lines.file.read_text()
    assert "token" not in lines.file.read_text()


async def test_the_id_of_an_answer_stands_in_its_line(client: Client, lines: Lines) -> None:
    answer = await client.ask(b"GET /a HTTP/1.1\r\nHost: p\r\n\r\n")
    (line,) = await lines.wait(1)
    assert [line["request_id"].encode()] == answer.get(b"x-request-id")


async def test_a_retry_is_counted_and_the_last_replica_named(rig: Rig, lines: Lines) -> None:
    gone, there = await rig.replica("gone"), await rig.replica("there")
    await gone.stop()
    rig.fleet(gone, there, policy=Policy(strategy="round_robin", slow_start_s=0))
    client = await rig.client()
    seen = []
    for number in range(1, 5):
        await client.ask(b"GET /a HTTP/1.1\r\nHost: p\r\n\r\n")
        seen = await lines.wait(number)
    assert {line["replica"] for line in seen} == {"there"}
    assert max(line["retries"] for line in seen) == 1


async def test_errors_of_our_own_and_local_answers(rig: Rig, client: Client, lines: Lines) -> None:
    await client.ask(b"GET /fleets/nope/x HTTP/1.1\r\nHost: p\r\n\r\n")
    await client.ask(b"GET /v1/models HTTP/1.1\r\nHost: p\r\n\r\n")
    refused = await rig.client()
    await refused.ask(b"GET / HTTP/1.1\r\nHost: p\r\nBad Name: x\r\n\r\n")
    unknown, local, broken = await lines.wait(3)
    assert (unknown["status"], unknown["outcome"], unknown["code"]) == (404, "error", "model_not_found")
    assert (local["status"], local["outcome"], local["fleet"]) == (200, "local", "")
    assert (broken["status"], broken["outcome"], broken["path"]) == (400, "refused", "")


async def test_a_client_that_leaves(replica: Replica, client: Client, lines: Lines) -> None:
    waiting = asyncio.Event()

    async def never(connection: ReplicaConnection, seen: Seen) -> None:
        waiting.set()

    replica.script = never
    client.send(b"GET /slow HTTP/1.1\r\nHost: p\r\n\r\n")
    await waiting.wait()
    client.abort()
    (line,) = await lines.wait(1)
    assert (line["status"], line["outcome"], line["first_byte_ms"]) == (0, "client_left", None)


async def test_an_answer_that_breaks_off(replica: Replica, client: Client, lines: Lines) -> None:
    replica.script = answer_bytes(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf", "fin")
    client.send(b"GET /half HTTP/1.1\r\nHost: p\r\n\r\n")
    await client.ends()
    (line,) = await lines.wait(1)
    assert (line["status"], line["outcome"]) == (200, "cut")


@pytest.mark.parametrize(("who", "outcome"), [("client", "client_left"), ("replica", "answered")])
async def test_a_tunnel_by_who_ends_it(
    who: str, outcome: str, replica: Replica, client: Client, lines: Lines
) -> None:
    replica.script = switch
    answer = await client.ask(ASKED)
    replica.connections[0].transport.write(b"hello")
    assert await client.reader.readexactly(5) == b"hello"
    if who == "client":
        client.abort()
    else:
        replica.connections[0].transport.close()
    (line,) = await lines.wait(1)
    assert (line["status"], line["outcome"], line["replica"]) == (101, outcome, "r0")
    assert line["bytes"] == len(answer.head) + 5


async def test_what_is_said_before_the_answer_is_not_counted(tmp_path: Path) -> None:
    """Yet informational answers of the replica's are."""
    wire, found = Wire(), Lines(tmp_path / "access.log")
    wire.proxy.log_to(found.log)
    client, transport = wire.client()
    ((replica, _),) = wire.replicas(1)
    client.data_received(b"POST /a HTTP/1.1\r\nHost: p\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
    wire.settle()
    assert transport.written == CONTINUE
    client.data_received(b"hi")
    replica.data_received(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n")
    replica.data_received(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nyo")
    wire.settle()
    found.log.close()
    (line,) = found.read()
    assert (line["status"], line["bytes"]) == (200, len(transport.written) - len(CONTINUE))
    (connection,) = wire.proxy._clients
    assert not isinstance(connection.write, WriteTap), "an idle connection keeps no exchange"


async def test_with_client_keys(rig: Rig, client: Client, lines: Lines) -> None:
    rig.keys("00" * 16, {"0" * 64: ["f"]})
    await client.ask(b"GET /a HTTP/1.1\r\nHost: p\r\nAuthorization: Bearer sy-guess\r\n\r\n")
    (line,) = await lines.wait(1)
    assert (line["status"], line["code"]) == (401, "client_key_unknown")
    assert "guess" not in lines.file.read_text()


def test_a_file_that_was_moved_is_opened_anew(tmp_path: Path) -> None:
    file, moved = tmp_path / "access.log", tmp_path / "access.log.1"
    log = AccessLog(str(file), "json", "proxy/worker/0")
    os.rename(file, moved)
    log.add(AccessLine(time=0.0, path="/after"))
    log.close()
    assert moved.read_text() == ""
    assert json.loads(file.read_text())["path"] == "/after"


def test_text_lines_cannot_be_forged(tmp_path: Path) -> None:
    file = tmp_path / "access.log"
    log = AccessLog(str(file), "text", "proxy/worker/0")
    log.add(AccessLine(time=0.0, path="/a status=200\n1970", status=404))
    log.close()
    (line,) = file.read_text().splitlines()
    assert line.startswith("1970-01-01T00:00:00.000Z proxy/worker/0 ")
    assert 'path="/a status=200\\n1970"' in line
    assert "status=404" in line
