"""Matches: a fleet that is found by the request's host and path prefix."""

import json

from msgspec.structs import replace

from routing.contract.table import Match
from routing.proxy import ProxySettings
from tests.routing.proxy.exchange.three_fleets import Fleets, fleets, said_by, to
from tests.routing.proxy.rig import Rig, StartRig, until


async def matched_fleets(rig: Rig) -> Fleets:
    """As :func:`fleets`; ``big`` has a host of its own, ``digits`` a path there and a suffix."""
    some = await fleets(rig)
    host = Match(host="big.test")
    rig.fleet(some.big, name="big", protocol="openai", served_model="org/Big", default=False, match=(host,))
    below = (Match(host="big.test", path_prefix="/n"), Match(host="*.num.test"))
    rig.fleet(some.digits, name="digits", protocol="open-inference", default=False, match=below)
    return some


async def test_host_and_path_name_the_fleet(rig: Rig) -> None:
    some = await matched_fleets(rig)
    client = await rig.client()
    assert said_by(await client.ask(to(b"big.test", b"GET /metrics?x=1"))) == b"b1"
    assert said_by(await client.ask(to(b"BIG.test.:8080", b"GET /metrics"))) == b"b1"
    assert said_by(await client.ask(to(b"big.test", b"GET /n/x"))) == b"d1"
    assert said_by(await client.ask(to(b"a.num.test", b"GET /"))) == b"d1"
    assert said_by(await client.ask(to(b"num.test", b"GET /"))) == b"t1"
    # Forwarded as it came, to the replica's own Host.
    assert some.big.requests[0].line == b"GET /metrics?x=1 HTTP/1.1"
    assert some.big.requests[0].get(b"host") == [b"127.0.0.1:%d" % some.big.port]
    assert some.digits.requests[0].line == b"GET /n/x HTTP/1.1"


async def test_a_target_with_a_host_comes_before_the_field(rig: Rig) -> None:
    """RFC 9112 §3.2.2."""
    await matched_fleets(rig)
    client = await rig.client()
    assert said_by(await client.ask(to(b"big.test", b"GET http://x.num.test/a"))) == b"d1"
    assert said_by(await client.ask(to(b"x.num.test", b"GET http://big.test"))) == b"b1"
    client.send(b"GET http://x.num.test/a HTTP/1.0\r\n\r\n")
    assert said_by(await client.answer()) == b"d1"


async def test_what_names_a_fleet_outside_the_body_comes_before_a_match(rig: Rig) -> None:
    await matched_fleets(rig)
    client = await rig.client()
    assert said_by(await client.ask(to(b"big.test", b"GET /fleets/tiny/x"))) == b"t1"
    assert said_by(await client.ask(to(b"big.test", b"POST /v2/models/digits/infer", b"{}"))) == b"d1"
    field = b"X-Switchyard-Fleet: tiny\r\n"
    assert said_by(await client.ask(to(b"big.test", b"POST /v1/completions", b"{}", field))) == b"t1"


async def test_a_match_comes_before_the_model_in_the_body(rig: Rig) -> None:
    some = await matched_fleets(rig)
    client = await rig.client()
    body = b'{"model": "tiny"}'
    assert said_by(await client.ask(to(b"big.test", b"POST /v1/completions", body))) == b"b1"
    # Nothing is rewritten: the client speaks to these replicas as if they were alone.
    assert some.big.requests[0].body == body
    assert said_by(await client.ask(to(b"a.test", b"POST /v1/completions", body))) == b"t1"
    # The same target, once matched and once not, on one connection.
    assert said_by(await client.ask(to(b"big.test", b"POST /v1/completions", body))) == b"b1"
    assert said_by(await client.ask(to(b"big.test", b"GET /v1/models"))) == b"b1"
    listed = await client.ask(to(b"a.test", b"GET /v1/models"))
    assert "tiny" in [model["id"] for model in json.loads(listed.body)["data"]]
    options = await client.ask(to(b"big.test", b"OPTIONS *"))
    assert options.get(b"x-switchyard-replica") == []


async def test_a_matched_body_streams_through(start_rig: StartRig) -> None:
    """No part of it is kept until it is complete: the replica has the beginning while the end is unsent."""
    rig = await start_rig(ProxySettings(peek_bytes=1000))
    some = await matched_fleets(rig)
    client = await rig.client()
    whole = to(b"big.test", b"POST /v1/completions", b"y" * 100_000)
    client.send(whole[:-1])
    await until(lambda: some.big.connections and len(some.big.connections[0].received) > 90_000)
    client.send(whole[-1:])
    assert said_by(await client.answer()) == b"b1"


async def test_a_changed_match_holds_for_open_connections(rig: Rig) -> None:
    """Heads are kept with what was concluded from them; heads like them, too."""
    some = await matched_fleets(rig)
    client = await rig.client()
    ask = to(b"big.test", b"POST /v1/completions", b'{"model": "tiny"}')
    like = to(b"big.test", b"POST /v1/completions", b'{"model":"tiny"}')
    for each in (ask, like, ask, ask):
        assert said_by(await client.ask(each)) == b"b1"
    rig.fleet(some.big, name="big", protocol="openai", default=False)
    rig.fleet(some.digits, name="digits", protocol="open-inference", default=False)
    assert rig.table.matches is None
    for each in (ask, like, ask, ask):
        assert said_by(await client.ask(each)) == b"t1"
    rig.fleet(some.big, name="big", protocol="openai", default=False, match=(Match(host="big.test"),))
    for each in (ask, like, ask, ask):
        assert said_by(await client.ask(each)) == b"b1"


async def test_a_changed_match_holds_for_heads_that_came_on_other_connections(rig: Rig) -> None:
    some = await matched_fleets(rig)
    request = to(b"big.test", b"GET /metrics")
    assert said_by(await (await rig.client()).ask(request)) == b"b1"
    assert said_by(await (await rig.client()).ask(request)) == b"b1"
    rig.fleet(some.big, name="big", protocol="openai", default=False, match=(Match(host="other.test"),))
    assert said_by(await (await rig.client()).ask(request)) == b"t1"


async def test_a_match_of_a_fleet_that_is_not_here_yet(rig: Rig) -> None:
    """Never the default fleet instead."""
    await fleets(rig)
    manifest = rig.table.manifest
    names = {**manifest.fleets, "late": 1}
    matches = {"late": [Match(host="late.test")]}
    rig.table.apply_manifest(replace(manifest, version=manifest.version + 1, fleets=names, matches=matches))
    client = await rig.client()
    answer = await client.ask(to(b"late.test", b"GET /"))
    assert answer.status == 404
    assert b"there is no fleet or alias named 'late' here" in answer.body
