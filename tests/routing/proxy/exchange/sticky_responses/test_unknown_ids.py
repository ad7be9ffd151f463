"""Response ids that nobody knows, that another fleet has, or that the key may not see."""

import json

from routing.contract.client_keys import key_hash, new_key, new_salt, salt_bytes
from tests.routing.proxy.exchange.sticky_responses.response_fleet import Fleet, Server, ask, by, create, error
from tests.routing.proxy.rig import Answer, Rig


async def test_unknown_ids_are_for_the_replica_to_refuse(fleet: Fleet) -> None:
    assert [status for status, _ in await fleet.turns("resp_nobody")] == [404] * 4
    answer = await fleet.client.ask(ask("GET /v1/responses/resp_nobody"))
    assert (answer.status, bool(by(answer))) == (404, True)
    # One that another fleet has is unknown to this one.
    third = Server(await fleet.rig.replica("c"))
    fleet.rig.fleet(third.replica, name="g", protocol="openai", default=False)
    made = await fleet.client.ask(create("g"))
    name = json.loads(made.body)["id"]
    assert {by(await fleet.client.ask(create(previous_response_id=name))) for _ in range(6)} == {"a", "b"}
    assert by(await fleet.client.ask(ask(f"GET /v1/responses/{name}"))) == "c"
    assert {by(await fleet.client.ask(ask(f"GET /fleets/f/v1/responses/{name}"))) for _ in range(6)} == {
        "a",
        "b",
    }


async def test_without_a_default_the_only_fleet_that_speaks_openai_is_asked(rig: Rig) -> None:
    server = Server(await rig.replica("a"))
    client = await rig.client()
    rig.fleet(server.replica, protocol="openai", default=False)
    assert by(await client.ask(ask("GET /v1/responses/resp_x"))) == "a"
    rig.fleet(await rig.replica("d"), name="digits", protocol="open-inference")
    assert by(await client.ask(ask("GET /v1/responses/resp_x"))) == "a"
    manifest = rig.table.manifest
    rig.fleet(await rig.replica("b"), name="g", protocol="openai", default=False)
    rig._version += 1
    fleets = rig.table.manifest.fleets
    rig.table.apply_manifest(type(manifest)(epoch=1, version=rig._version, fleets=fleets))
    status, code, words = error(await client.ask(ask("GET /v1/responses/resp_x")))
    assert (status, code) == (404, "response_not_found")
    assert "name the fleet in the path" in words


async def test_a_key_that_does_not_open_the_fleet_sees_an_unknown_id(fleet: Fleet) -> None:
    third = Server(await fleet.rig.replica("c"))
    fleet.rig.fleet(third.replica, name="g", protocol="openai", default=False)
    both, only_f, salt = new_key().encode(), new_key().encode(), new_salt()
    grants = {both: ["f", "g"], only_f: ["f"]}
    fleet.rig.keys(salt, {key_hash(salt_bytes(salt), key): fleets for key, fleets in grants.items()})

    async def asked(key: bytes, line: str, body: object = None) -> Answer:
        return await fleet.client.ask(ask(line, body, f"Authorization: Bearer {key.decode()}"))

    made = json.loads((await asked(both, "POST /v1/responses", {"model": "g"})).body)["id"]
    assert by(await asked(both, f"GET /v1/responses/{made}")) == "c"
    known = await asked(only_f, f"GET /v1/responses/{made}")
    unknown = await asked(only_f, "GET /v1/responses/resp_nobody")
    assert (known.status, known.body) == (unknown.status, unknown.body)
    assert {by(known), by(unknown)} == {"a", "b"}
    assert (await asked(only_f, f"GET /fleets/g/v1/responses/{made}")).status == 403
