"""Credentials of replicas: sent to each its own, read again when they change, and nothing without them."""

import asyncio
import logging
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from routing.contract.client_keys import ALL_FLEETS, key_hash, new_key, new_salt, salt_bytes
from routing.proxy.auth import credential_watch
from routing.tls import reload_cache
from tests.routing.proxy.exchange.test_tunnel import ASKED, switch
from tests.routing.proxy.rig import Answer, Client, Replica, Rig, answer_bytes, until

GET = b"GET /x HTTP/1.1\r\nHost: a.test\r\n%b\r\n"
TOKEN, OTHER = "t0ken-of_a~replica+/==", "0ther"
NAME = "TEST_REPLICA_TOKEN"
HERE = socket.gethostname()


@pytest.fixture(autouse=True)
def variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, TOKEN)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "replica.token"
    path.write_text(OTHER + "\n")
    return path


@pytest.fixture
async def held(rig: Rig) -> Replica:
    """The one replica of the default fleet, which has a credential."""
    replica = await rig.replica()
    rig.fleet(replica, credentials={"r0": f"env:{NAME}"})
    return replica


@pytest.fixture
async def client(rig: Rig, held: Replica) -> Client:
    return await rig.client()


def sent(replica: Replica) -> list[list[bytes]]:
    """Values of Authorization, of each request that the replica saw."""
    return [seen.get(b"authorization") for seen in replica.requests]


MINE = [b"Bearer " + TOKEN.encode()]


@pytest.mark.parametrize(
    "own",
    [
        b"",
        b"Authorization: Bearer its-own\r\n",
        b"Accept: */*\r\nAUTHORIZATION:Basic eA==\r\nX-Trace: 1\r\nauthorization: Bearer b\r\n",
        b"Connection: authorization\r\nAuthorization: Bearer its-own\r\n",
    ],
)
async def test_it_takes_the_place_of_the_clients_own(held: Replica, client: Client, own: bytes) -> None:
    for _ in range(3):
        assert (await client.ask(GET % own)).status == 200
    assert sent(held) == [MINE] * 3
    assert len(held.connections) == 1
    assert held.requests[0].get(b"x-trace") == ([b"1"] if b"X-Trace" in own else [])
    assert b"its-own" not in b"".join(bytes(one.received) for one in held.connections)


async def test_heads_that_differ_only_in_the_clients_credential(held: Replica, client: Client) -> None:
    for number in range(6):
        assert (await client.ask(GET % (b"Authorization: Bearer its-own-%d\r\n" % number))).status == 200
    assert sent(held) == [MINE] * 6


async def test_without_one_the_clients_own_goes_as_it_came(rig: Rig) -> None:
    replica = await rig.replica()
    rig.fleet(replica)
    client = await rig.client()
    await client.ask(GET % b"Authorization: Bearer its-own\r\nx-api-key: also\r\n")
    rig.fleet(replica, credentials={"r0": f"env:{NAME}"})
    await client.ask(GET % b"Authorization: Bearer its-own\r\nx-api-key: also\r\n")
    rig.fleet(replica)
    await client.ask(GET % b"Authorization: Bearer its-own\r\nx-api-key: also\r\n")
    assert sent(replica) == [[b"Bearer its-own"], MINE, [b"Bearer its-own"]]
    assert [seen.get(b"x-api-key") for seen in replica.requests] == [[b"also"]] * 3


async def test_a_client_key_never_reaches_it(rig: Rig, held: Replica, client: Client) -> None:
    key, salt = new_key().encode(), new_salt()
    rig.keys(salt, {key_hash(salt_bytes(salt), key): [ALL_FLEETS]})
    for field in (b"Authorization: Bearer ", b"x-api-key: "):
        assert (await client.ask(GET % (field + key + b"\r\n"))).status == 200
    assert (await client.ask(GET % b"")).status == 401
    assert sent(held) == [MINE] * 2
    assert key not in bytes(held.connections[0].received)


async def test_each_replica_gets_its_own_when_another_is_asked(rig: Rig, file: Path) -> None:
    first, second = await rig.replica(), await rig.replica()
    first.script = answer_bytes(b"", then="fin")
    rig.fleet(first, second, protocol="openai", credentials={"r0": f"env:{NAME}", "r1": f"file:{file}"})
    client = await rig.client()
    body = b'{"model": "f", "messages": []}'
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: a.test\r\nAuthorization: Bearer its-own\r\n"
    for _ in range(2):
        answer = await client.ask(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        assert answer.status == 200
    assert sent(first)[0] == MINE
    assert sent(second) == [[b"Bearer " + OTHER.encode()]] * 2
    assert {seen.body for seen in (*first.requests, *second.requests)} == {body}


async def test_uploads_streams_and_tunnels(held: Replica, client: Client) -> None:
    head = (
        b"POST /x HTTP/1.1\r\nHost: a.test\r\nAuthorization: Bearer b\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    held.script = answer_bytes(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n")
    client.send(head + b"5\r\nhello\r\n")
    await until(lambda: held.connections and held.connections[0].received)
    client.send(b"0\r\n\r\n")
    answer = await client.answer()
    assert (answer.status, answer.body, answer.complete) == (200, b"ok", True)
    held.script = switch
    asked = ASKED.replace(b"\r\n\r\n", b"\r\nAuthorization: Bearer b\r\n\r\n")
    assert (await client.ask(asked)).status == 101
    assert sent(held) == [MINE] * 2
    assert held.requests[0].body == b"hello"


# --- what is read -----------------------------------------------------------------------------------


async def test_a_file_is_read_again_when_it_is_replaced(
    rig: Rig, file: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (reload_cache, credential_watch):
        monkeypatch.setattr(module, "LOOK_EVERY_S", 0.1)
    caplog.set_level(logging.INFO)
    replica = await rig.replica()
    rig.fleet(replica, credentials={"r0": f"file:{file}"})
    client = await rig.client()
    assert (await client.ask(GET % b"")).status == 200
    replaced = file.with_suffix(".new")
    replaced.write_text("newer\r\n")
    replaced.replace(file)
    await _until_answered(client, 200, lambda _: sent(replica)[-1] == [b"Bearer newer"])

    await asyncio.to_thread(file.unlink)
    words = f"credential file:…/{file.name} cannot be read: No such file or directory (host {HERE})"
    noticed = f"replica r0 of fleet f gets no requests: {words}"
    # The request that finds the file gone says so of its one replica; those after it find it left out.
    await _until_answered(client, 503, lambda answer: is_left_out(answer, file))
    assert noticed in caplog.messages
    count = len(replica.requests)
    [explained] = rig.table.fleets["f"].explain(time.monotonic())
    assert explained.reasons == [words]
    assert len(replica.requests) == count, "nothing is sent without it"

    await asyncio.to_thread(file.write_text, "newest")
    await _until_answered(client, 200, lambda _: sent(replica)[-1] == [b"Bearer newest"])
    assert "the credential of replica r0 of fleet f is there" in caplog.messages
    assert all(token not in caplog.text for token in (OTHER, "newer", "newest"))


def is_left_out(answer: Answer, reference: Path | str) -> bool:
    """Clients are told that there is no credential, and neither where it should be nor on which host."""
    said = answer.body.decode()
    name = reference.name if isinstance(reference, Path) else reference
    return "its credential" in said and name not in said and HERE not in said


def reason(rig: Rig) -> str:
    [explained] = rig.table.fleets["f"].explain(time.monotonic())
    return "; ".join(explained.reasons)


async def _until_answered(client: Client, status: int, condition: Callable[[Answer], bool]) -> Answer:
    """Ask until the answer has this status and the condition holds of it."""
    for _ in range(250):
        answer = await client.ask(GET % b"")
        if answer.status == status and condition(answer):
            return answer
        await asyncio.sleep(0.02)
    raise AssertionError(f"no such answer in 5 s, the last was {answer.status}")


BAD = [
    ("", "is empty"),
    ("\n", "is empty"),
    ("two\nlines", "holds more than a token"),
    ("a\r\nX-Evil: 1", "holds more than a token"),
    ("a\r", None),
    ("Bearer abc", "holds more than a token"),
    ("tok\u00e9n", "holds more than a token"),
    ("a\x00b", "holds more than a token"),
    ("x" * 17_000, "has 17000 bytes: a token's file has 16384 at most"),
]


@pytest.mark.parametrize(("content", "words"), BAD)
async def test_what_is_no_token_is_not_sent(
    rig: Rig, tmp_path: Path, content: str, words: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "odd.token"
    path.write_bytes(content.encode())
    replica = await rig.replica()
    rig.fleet(replica, credentials={"r0": f"file:{path}"})
    client = await rig.client()
    answer = await client.ask(GET % b"")
    if words is None:
        assert sent(replica) == [[b"Bearer a"]]
        return
    assert answer.status == 503
    assert is_left_out(answer, path)
    assert f"credential file:…/{path.name} {words}" in reason(rig)
    assert not replica.connections
    assert not content.strip() or content.strip() not in answer.body.decode() + caplog.text


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\n", "tok\u00e9n", "Bearer abc", ""])
async def test_a_variable_that_holds_no_token(rig: Rig, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv(NAME, value)
    replica = await rig.replica()
    rig.fleet(replica, credentials={"r0": f"env:{NAME}"})
    answer = await (await rig.client()).ask(GET % b"")
    assert answer.status == 503
    assert is_left_out(answer, NAME)
    assert f"credential env:{NAME} " in reason(rig)
    assert not replica.connections


async def test_what_is_no_file_and_what_is_ours(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "var"
    data.mkdir()
    (data / "secret_key").write_text("s3cret")
    (tmp_path / "link").symlink_to(data / "secret_key")
    monkeypatch.setenv("SWITCHYARD_DATA_DIR", str(data))
    replica = await rig.replica()
    client = await rig.client()
    for path, words in (
        (tmp_path, "is no file"),
        (data / "secret_key", "lies in Switchyard's own data folder"),
        (tmp_path / "link", "lies in Switchyard's own data folder"),
    ):
        rig.fleet(replica, credentials={"r0": f"file:{path}"})
        answer = await client.ask(GET % b"")
        assert answer.status == 503
        assert is_left_out(answer, path)
        assert f"credential file:…/{path.name} {words}" in reason(rig)
    assert not replica.connections


async def test_others_are_asked_instead(rig: Rig) -> None:
    first, second = await rig.replica(), await rig.replica()
    rig.fleet(first, second, credentials={"r0": "env:TEST_REPLICA_UNSET"})
    client = await rig.client()
    for _ in range(4):
        assert (await client.ask(GET % b"")).status == 200
    assert not first.connections
    assert len(second.requests) == 4
    assert rig.table.fleets["f"].counters.retries == 0


async def test_asked_before_that_is_noticed_it_fails_before_anything_is_sent(rig: Rig) -> None:
    """Who is eligible is sorted out ten times a second, and a token may be lost in between."""
    first, second = await rig.replica(), await rig.replica()
    rig.fleet(first, credentials={"r0": "env:TEST_REPLICA_UNSET"})
    client = await rig.client()
    rig.table.fleets["f"].replicas[0].security.no_credential = ""
    answer = await client.ask(GET % b"")
    assert answer.status == 503
    assert b"the replica gets no requests: its credential cannot be read" in answer.body
    assert is_left_out(answer, "TEST_REPLICA_UNSET")
    assert b"credential_missing" in answer.body

    rig.fleet(first, second, credentials={"r0": "env:TEST_REPLICA_UNSET"})
    for _ in range(2):
        rig.table.fleets["f"].replicas[0].security.no_credential = ""
        assert (await client.ask(GET % b"")).status == 200
    assert not first.connections
    assert len(second.requests) == 2


async def test_the_token_is_in_no_repr(rig: Rig, held: Replica, client: Client) -> None:
    assert (await client.ask(GET % b"")).status == 200
    replica = rig.table.fleets["f"].replicas[0]
    shown = [replica, replica.spec, replica.endpoint, rig.table, rig.proxy, rig.table.fleets["f"]]
    for one in [*shown, *vars(rig.proxy).values(), *vars(rig.proxy._credentials).values()]:
        assert TOKEN not in repr(one)
    assert os.environ[NAME] == TOKEN


async def test_what_could_not_be_read_is_tried_again_though_nothing_was_written(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (reload_cache, credential_watch):
        monkeypatch.setattr(module, "LOOK_EVERY_S", 0.1)
    monkeypatch.delenv(NAME)
    replica = await rig.replica()
    rig.fleet(replica, credentials={"r0": f"env:{NAME}"})
    client = await rig.client()
    assert (await client.ask(GET % b"")).status == 503
    monkeypatch.setenv(NAME, TOKEN)
    await _until_answered(client, 200, lambda _: sent(replica) == [MINE])
