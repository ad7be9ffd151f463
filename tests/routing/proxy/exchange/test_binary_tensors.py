"""V2 inference with tensors in binary: a JSON object, and raw bytes behind it."""

import json

import pytest

from tests.routing.proxy.rig import OK, OK_ANSWER, Replica, ReplicaConnection, Rig, Seen, answer_bytes, until

INFER = "/v2/models/numbers/infer"


async def digits(rig: Rig) -> tuple[Replica, list[float]]:
    """And the work of each request, while it is there."""
    replica = await rig.replica("d1")
    rig.fleet(replica, name="digits", protocol="open-inference", aliases=("numbers",), served_model="m")
    works: list[float] = []

    async def note(connection: ReplicaConnection, seen: Seen) -> None:
        works.append(rig.table.fleets["digits"].replicas[0].work)
        connection.transport.write(OK_ANSWER)

    replica.script = note
    return replica, works


def body_of(elements: int) -> tuple[bytes, bytes]:
    """The object, and the tensor."""
    said = {
        "name": "x",
        "shape": [elements],
        "datatype": "FP32",
        "parameters": {"binary_data_size": 4 * elements},
    }
    return json.dumps({"inputs": [said]}).encode(), bytes(range(256)) * (elements // 64)


def post(target: str, length: object, body: bytes) -> bytes:
    head = f"POST {target} HTTP/1.1\r\nHost: a.test\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Inference-Header-Content-Length: {length}\r\n\r\n".encode() + body


@pytest.mark.parametrize("target", [INFER, "/v2/models/numbers/versions/2/infer"])
async def test_work_is_what_the_shapes_say(rig: Rig, target: str) -> None:
    replica, works = await digits(rig)
    client = await rig.client()
    said, tensor = body_of(1024)
    assert (await client.ask(post(target, len(said), said + tensor))).status == 200
    assert works == [1024.0]
    seen = replica.requests[0]
    assert seen.body == said + tensor
    assert seen.line == f"POST {target.replace('numbers', 'm')} HTTP/1.1".encode()
    assert seen.get(b"inference-header-content-length") == [b"%d" % len(said)]


async def test_each_request_has_a_length_of_its_own(rig: Rig) -> None:
    """On one connection, whose heads are recognised by what they have in common."""
    _, works = await digits(rig)
    client = await rig.client()
    elements = [64, 640, 64_000, 128, 6400]
    for number in elements:
        said, tensor = body_of(number)
        assert (await client.ask(post(INFER, len(said), said + tensor))).status == 200
    assert works == [float(number) for number in elements]


async def test_a_large_body_streams_through_and_its_work_is_known_at_once(rig: Rig) -> None:
    replica, works = await digits(rig)
    client = await rig.client()
    said, tensor = body_of(1 << 20)
    whole = post(INFER, len(said), said + tensor)
    client.send(whole[:-1])
    await until(lambda: replica.connections and len(replica.connections[0].received) > 4_000_000)
    assert rig.table.fleets["digits"].replicas[0].work == float(1 << 20)
    assert rig.proxy.bodies.used == 0
    client.send(whole[-1:])
    assert (await client.answer()).status == 200
    assert (works, replica.requests[0].body == said + tensor) == ([float(1 << 20)], True)


@pytest.mark.parametrize("length", ["0", "7", "-1", "x", "99999999999999999999", str(10**12)])
async def test_a_length_that_cannot_be_true_is_the_replicas_business(rig: Rig, length: str) -> None:
    replica, _ = await digits(rig)
    client = await rig.client()
    said, tensor = body_of(1024)
    for _ in range(2):
        assert (await client.ask(post(INFER, length, said + tensor))).status == 200
        assert replica.requests[-1].body == said + tensor
        assert replica.requests[-1].get(b"inference-header-content-length") == [length.encode()]


async def test_a_streamed_generation(rig: Rig) -> None:
    """Triton's generate extension: events are tokens, and none of them closes the stream."""
    replica, _ = await digits(rig)
    event = b'data: {"text_output":"a"}\n\n'
    chunk = b"%x\r\n%b\r\n" % (len(event), event)
    head = OK + b"Content-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
    replica.script = answer_bytes(head + chunk)
    client = await rig.client()
    body = b'{"text_input":"hi","parameters":{"max_tokens":9}}'
    asked = b"POST /v2/models/digits/generate_stream HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%b"
    client.send(asked % (len(body), body))
    await client.reader.readuntil(chunk)
    replica.connections[0].transport.write(chunk + b"0\r\n\r\n")
    await client.reader.readuntil(b"0\r\n\r\n")
    assert rig.table.fleets["digits"].replicas[0].output_tokens == 2
