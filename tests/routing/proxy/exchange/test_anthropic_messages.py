"""Anthropic's API (``/v1/messages``), which the servers of the OpenAI API speak besides."""

import json

import pytest

from routing.contract.client_keys import key_hash, salt_bytes
from routing.proxy import ProxySettings
from tests.routing.proxy.rig import OK, Answer, Replica, Rig, StartRig, answer_bytes

VERSION = b"anthropic-version: 2023-06-01\r\n"
SALT = "00" * 16
STREAM = (
    b'event: message_start\ndata: {"type":"message_start","message":{"usage":{"output_tokens":0}}}\n\n'
    b'event: content_block_delta\ndata: {"type":"content_block_delta","delta":{"text":"Hi"}}\n\n'
    b'event: message_delta\ndata: {"type":"message_delta","usage":{"output_tokens":41}}\n\n'
    b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
)


def post(body: object, path: str = "/v1/messages?beta=true", fields: bytes = b"") -> bytes:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: a.test\r\nContent-Length: {len(text)}\r\n".encode()
    return head + VERSION + fields + b"\r\n" + text


def message(model: str = "claude", **more: object) -> dict[str, object]:
    return {"model": model, "max_tokens": 100, "messages": [{"role": "user", "content": "hello"}], **more}


async def speaker(rig: Rig, default: bool = False) -> Replica:
    replica = await rig.replica("s1")
    rig.fleet(
        replica,
        name="llama",
        protocol="openai",
        served_model="org/Llama",
        aliases=("claude",),
        default=default,
    )
    return replica


def error_of(answer: Answer) -> dict[str, object]:
    """Checks all that every error has."""
    said = json.loads(answer.body)
    assert answer.get(b"content-type") == [b"application/json"]
    assert said["type"] == "error"
    assert answer.get(b"request-id") == answer.get(b"x-request-id") == [said["request_id"].encode()]
    assert said["error"]["message"]
    return {"status": answer.status, "type": said["error"]["type"], **said["error"]["details"]}


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages?beta=true", "/v1/messages/count_tokens"])
async def test_model_and_work(rig: Rig, path: str) -> None:
    replica, client = await speaker(rig), await rig.client()
    body = message(stream=False)
    assert (await client.ask(post(body, path))).status == 200
    seen = replica.requests[0]
    assert seen.line == f"POST {path} HTTP/1.1".encode()
    assert json.loads(seen.body) == {**body, "model": "org/Llama"}
    assert seen.get(b"anthropic-version") == [b"2023-06-01"]


async def test_tokens_of_a_whole_answer_and_of_a_stream(rig: Rig) -> None:
    replica, client = await speaker(rig), await rig.client()
    usage = b'{"type":"message","usage":{"input_tokens":9,"output_tokens":17}}'
    replica.script = answer_bytes(OK + b"Content-Length: %d\r\n\r\n%b" % (len(usage), usage))
    await client.ask(post(message()))
    counted = rig.table.fleets["llama"].replicas[0]
    assert counted.output_tokens == 17
    chunks = b"".join(
        b"%x\r\n%b\r\n" % (len(STREAM[at : at + 50]), STREAM[at : at + 50])
        for at in range(0, len(STREAM), 50)
    )
    head = OK + b"Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    replica.script = answer_bytes(head + chunks + b"0\r\n\r\n")
    answer = await client.ask(post(message(stream=True)))
    assert answer.body == STREAM
    assert counted.output_tokens == 17 + 41


async def test_errors_before_a_fleet_is_known(start_rig: StartRig) -> None:
    rig = await start_rig(ProxySettings(peek_bytes=1000))
    await speaker(rig)
    client = await rig.client()
    assert error_of(await client.ask(post(message("nobody")))) == {
        "status": 404,
        "type": "not_found_error",
        "error_code": "model_not_found",
    }
    assert error_of(await client.ask(post(b"[]"))) == {
        "status": 400,
        "type": "invalid_request_error",
        "error_code": "bad_body",
    }
    assert error_of(await client.ask(post(message(), "/fleets/nobody/v1/messages")))["status"] == 404
    client.send(post(message(system="x" * 2000))[:1200])
    assert error_of(await client.answer()) == {
        "status": 413,
        "type": "request_too_large",
        "error_code": "body_too_large_to_search",
    }


async def test_errors_of_a_fleet(rig: Rig) -> None:
    replica, client = await speaker(rig), await rig.client()
    replica.script = answer_bytes(b"", "rst")
    for path in ("/v1/messages", "/fleets/llama/v1/messages?beta=true"):
        assert error_of(await client.ask(post(message(), path))) == {
            "status": 502,
            "type": "api_error",
            "error_code": "replica_lost",
        }
    # Beside it the same fleet's other path speaks the other protocol.
    other = await client.ask(post(message(), "/v1/chat/completions"))
    assert json.loads(other.body)["error"]["type"] == "server_error"
    assert other.get(b"request-id") == []
    rig.fleet(name="llama", protocol="openai", aliases=("claude",))
    assert error_of(await client.ask(post(message()))) == {
        "status": 503,
        "type": "overloaded_error",
        "error_code": "no_replica",
    }
    late = b"X-Request-Timeout-Ms: 1\r\n"
    silent = await rig.replica("silent")
    silent.script = answer_bytes(b"")
    rig.fleet(silent, name="llama", protocol="openai", aliases=("claude",))
    assert error_of(await client.ask(post(message(), fields=late))) == {
        "status": 504,
        "type": "timeout_error",
        "error_code": "request_timeout",
    }


async def test_a_fleet_of_another_protocol_speaks_its_own(rig: Rig) -> None:
    """A path alone does not make it Anthropic's."""
    rig.fleet(name="own", protocol="generic", default=True)
    client = await rig.client()
    answer = await client.ask(post(message(), "/fleets/own/v1/messages"))
    assert answer.get(b"content-type") == [b"application/problem+json"]


async def test_a_body_that_is_refused_on_its_way(rig: Rig) -> None:
    await speaker(rig)
    for path in ("/v1/messages", "/fleets/llama/v1/messages"):
        client = await rig.client()
        head = f"POST {path} HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
        client.send(head + b"zz\r\n")
        assert error_of(await client.answer())["error_code"] == "bad_chunk"


async def test_client_keys(rig: Rig) -> None:
    await speaker(rig)
    key = b"sy-" + b"k" * 48
    hashed = key_hash(salt_bytes(SALT), key)
    rig.keys(SALT, {hashed: ["llama"]})
    client = await rig.client()
    assert error_of(await client.ask(post(message()))) == {
        "status": 401,
        "type": "authentication_error",
        "error_code": "client_key_missing",
    }
    with_key = b"x-api-key: " + key + b"\r\n"
    assert (await client.ask(post(message(), fields=with_key))).status == 200
    rig.keys(SALT, {hashed: ["other"]})
    assert error_of(await client.ask(post(message(), fields=with_key)))["type"] == "permission_error"


async def test_a_lost_message_is_sent_again(rig: Rig) -> None:
    """It keeps no state; a batch does."""
    first, second = await rig.replica("a"), await rig.replica("b")
    rig.fleet(first, second, name="llama", protocol="openai", aliases=("claude",))
    client = await rig.client()
    for replica in (first, second):
        replica.script = answer_bytes(b"", "rst")
    for path, times in (
        ("/v1/messages?beta=true", 2),
        ("/v1/messages/count_tokens", 2),
        ("/v1/messages/batches", 1),
    ):
        before = len(first.requests) + len(second.requests)
        assert (await client.ask(post(message(), path))).status == 502
        assert len(first.requests) + len(second.requests) - before == times


async def test_the_list_of_models(rig: Rig) -> None:
    await speaker(rig)
    client = await rig.client()
    answer = await client.ask(b"GET /v1/models?limit=1000 HTTP/1.1\r\nHost: a\r\n" + VERSION + b"\r\n")
    listed = json.loads(answer.body)
    assert [model["id"] for model in listed["data"]] == ["claude", "llama"]
    assert listed["data"][0] == {
        "id": "claude",
        "display_name": "claude",
        "type": "model",
        "created_at": "1970-01-01T00:00:00Z",
    }
    assert (listed["has_more"], listed["first_id"], listed["last_id"]) == (False, "claude", "llama")
    one = await client.ask(b"GET /v1/models/claude HTTP/1.1\r\nHost: a\r\n" + VERSION + b"\r\n")
    assert json.loads(one.body)["display_name"] == "claude"
    missing = await client.ask(b"GET /v1/models/x HTTP/1.1\r\nHost: a\r\n" + VERSION + b"\r\n")
    assert (missing.status, json.loads(missing.body)["error"]["type"]) == (404, "not_found_error")
    plain = await client.ask(b"GET /v1/models HTTP/1.1\r\nHost: a\r\n\r\n")
    assert json.loads(plain.body)["object"] == "list"
