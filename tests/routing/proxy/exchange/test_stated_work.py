"""``X-Switchyard-Work``: what a client states of its request's work, and what goes by that."""

import json

import pytest

from routing.contract.accelerators import AcceleratorSpec
from routing.contract.table import KeyLimits
from tests.routing.proxy.auth.key_limits.limited_keys import KEY, OTHER, in_force
from tests.routing.proxy.exchange.queueing import Gate, clients, one
from tests.routing.proxy.rig import OK_ANSWER, Client, Replica, ReplicaConnection, Rig, Seen, until

CHAT = json.dumps({"model": "f", "messages": [], "max_tokens": 100}).encode()
INFER = json.dumps({"inputs": [{"name": "x", "shape": [1, 64], "datatype": "FP32", "data": []}]}).encode()
CALLS = {
    "openai": (b"/v1/chat/completions", CHAT, len(CHAT) / 4 + 100),
    "unlimited": (b"/v1/completions", b'{"model": "f", "prompt": ""}', 256 + 28 / 4),
    "anthropic": (b"/v1/messages", CHAT, len(CHAT) / 4 + 100),
    "open-inference": (b"/v2/models/f/infer", INFER, 64.0),
    "generic": (b"/fleets/f/x", b"y" * 40, 40.0),
}
"""By protocol: path, body, and what the proxy itself estimates."""


def post(path: bytes, body: bytes, *fields: bytes) -> bytes:
    head = (b"POST %b HTTP/1.1" % path, b"Host: a.test", b"Content-Length: %d" % len(body), *fields)
    return b"\r\n".join(head) + b"\r\n\r\n" + body


def state(units: object) -> bytes:
    return f"X-Switchyard-Work: {units}".encode()


async def noting(rig: Rig, protocol: str, **more: object) -> tuple[Replica, Client, list[float]]:
    """A fleet whose replica notes how much work it has, when it has a request."""
    replica = await rig.replica()
    kind = protocol if protocol in ("generic", "open-inference") else "openai"
    rig.fleet(replica, protocol=kind, **more)
    works: list[float] = []

    async def note(connection: ReplicaConnection, seen: Seen) -> None:
        works.append(rig.table.fleets["f"].replicas[0].work)
        connection.transport.write(OK_ANSWER)

    replica.script = note
    return replica, await rig.client(), works


@pytest.mark.parametrize("protocol", CALLS)
async def test_the_stated_work_is_what_counts_at_the_replica(rig: Rig, protocol: str) -> None:
    replica, client, works = await noting(rig, protocol)
    path, body, own = CALLS[protocol]
    # The first heads of a connection are checked as a whole, later ones recognised; one is sent twice.
    stated = [7000, 7000, 12.5, 1, 0.25, 999999999, None, 3, None]
    for units in stated:
        fields = () if units is None else (state(units),)
        assert (await client.ask(post(path, body, *fields))).status == 200
    assert works == [pytest.approx(own) if units is None else units for units in stated]
    assert all(seen.get(b"x-switchyard-work") == [] for seen in replica.requests)


@pytest.mark.parametrize("body", [b"y" * 40, b"y" * 400_000], ids=["small", "streamed"])
async def test_it_counts_for_a_body_that_comes_in_pieces(rig: Rig, body: bytes) -> None:
    _, client, works = await noting(rig, "generic")
    whole = post(b"/fleets/f/x", body, state(321))
    client.send(whole[:-20])
    await until(lambda: client.accepted is not None)
    client.send(whole[-20:])
    assert (await client.answer()).status == 200
    assert works == [321]


NO_NUMBERS = [
    *(
        "",
        "0",
        "0.0",
        "-1",
        "+1",
        "1e3",
        "nan",
        "inf",
        "1000000000",
        "1.",
        ".5",
        "0.0000001",
        "1,1",
        "1 1",
        "0x10",
    ),
    "\u0661".encode().decode("latin-1"),
]


@pytest.mark.parametrize("value", NO_NUMBERS)
async def test_what_is_no_such_number_is_refused(rig: Rig, value: str) -> None:
    replica, client, _ = await noting(rig, "generic")
    for before in ((), (state(1), state(2), state(3))):
        for fields in before:
            assert (await client.ask(post(b"/fleets/f/x", b"y", fields))).status == 200
        bad = b"X-Switchyard-Work: " + value.encode("latin-1")
        answer = await client.ask(post(b"/fleets/f/x", b"y", bad))
        assert answer.status == 400
        assert b"X-Switchyard-Work must be one decimal number above 0" in answer.body
        client = await rig.client()
    assert len(replica.requests) == 3


async def test_two_of_them_are_refused(rig: Rig) -> None:
    _, client, _ = await noting(rig, "generic")
    answer = await client.ask(post(b"/fleets/f/x", b"y", state(1), state(1)))
    assert (answer.status, json.loads(answer.body)["code"]) == (400, "bad_work")


async def test_where_memory_is_reserved_nobody_states_how_much(rig: Rig) -> None:
    gpu = AcceleratorSpec(name="n1/gpu0", memory_bytes=1000)
    replica = await rig.replica()
    by_work = {"accelerators": ["n1/gpu0"], "request_bytes": 10, "request_bytes_per_work": 1.0}
    rig.fleet(replica, devices=(gpu,), on_devices={replica.name: by_work})
    gate, client = Gate(replica), await rig.client()
    client.send(post(b"/fleets/f/x", b"y" * 61, state(1)))
    await until(lambda: gate.serving)
    (device,) = rig.table.memory.devices.values()
    assert (device.leased, rig.table.fleets["f"].replicas[0].work) == (71, 61)
    gate.release()
    assert (await client.answer()).status == 200


async def test_in_the_queue_a_client_is_not_served_more_for_stating_less(rig: Rig) -> None:
    in_force(rig, KeyLimits(id="web"))
    gate = await one(rig)
    several = await clients(rig, 10)

    def ask(name: str, key: bytes, units: object) -> bytes:
        return post(b"/fleets/f/" + name.encode(), b"y", b"Authorization: Bearer " + key, state(units))

    several[0].send(ask("busy", KEY, 1))
    await until(lambda: gate.serving)
    line = rig.table.fleets["f"].admission.queue
    for number in range(4):
        for at, (name, key, units) in enumerate((("liar", KEY, 0.001), ("honest", OTHER, 1000))):
            place = 2 * number + at
            several[place + 1].send(ask(f"{name}{number}", key, units))
            await until(lambda place=place: len(line) == place + 1)
    for _ in range(9):
        await until(lambda: gate.serving)
        gate.release()
    for client in several[:9]:
        assert (await client.answer()).status == 200
    names = [target.rpartition(b"/")[2][:-1] for target in gate.served[1:]]
    assert [names[at : at + 2] for at in (0, 2, 4, 6)] == [[b"liar", b"honest"]] * 4
