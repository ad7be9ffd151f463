"""What clients write about themselves stays with the proxy; what a trusted proxy says goes on."""

import pytest

from routing.contract.trusted_proxies import TrustedProxies
from tests.routing.proxy.rig import Client, Replica, Rig

MADE_UP = [
    b"Forwarded: for=6.6.6.6",
    b"X-Forwarded-For: 6.6.6.6",
    b"X-Forwarded-Proto: gopher",
    b"X-Forwarded-Host: evil.test",
    b"X-Forwarded-Port: 66",
    b"X-Forwarded-Prefix: /evil",
    b"X-Forwarded-User: evil",
    b"X-Forwarded: evil",
    b"X-Real-IP: 6.6.6.6",
    b"True-Client-IP: 6.6.6.6",
    b"CF-Connecting-IP: 6.6.6.6",
    b"CF-Connecting-IPv6: 6::6",
    b"X-Original-URL: /evil",
    b"X-Rewrite-URL: /evil",
    b"X-Original-Host: evil.test",
    b"X-Original-Forwarded-For: 6.6.6.6",
    b"X-Client-IP: 6.6.6.6",
    b"X-Cluster-Client-IP: 6.6.6.6",
    b"X-True-Client-IP: 6.6.6.6",
    b"X-Originating-IP: 6.6.6.6",
    b"X-Remote-IP: 6.6.6.6",
    b"X-Remote-Addr: 6.6.6.6",
    b"X-Azure-ClientIP: 6.6.6.6",
    b"X-Azure-SocketIP: 6.6.6.6",
    b"X-AppEngine-User-IP: 6.6.6.6",
    b"X-Envoy-External-Address: 6.6.6.6",
    b"X-Envoy-Original-Path: /evil",
    b"X-Envoy-Original-Host: evil.test",
    b"X-HTTP-Method-Override: evil",
    b"X-HTTP-Method: evil",
    b"X-Method-Override: evil",
    b"Client-IP: 6.6.6.6",
    b"Proxy-Client-IP: 6.6.6.6",
    b"WL-Proxy-Client-IP: 6.6.6.6",
    b"Fastly-Client-IP: 6.6.6.6",
]
KEPT_FROM_TRUSTED = {b"x-forwarded-host", b"x-forwarded-port", b"x-forwarded-prefix", b"x-forwarded-user"}


def get(*fields: bytes, version: bytes = b"1.1") -> bytes:
    return b"\r\n".join([b"GET / HTTP/" + version, b"Host: a.test", *fields]) + b"\r\n\r\n"


@pytest.mark.parametrize("field", MADE_UP)
async def test_what_a_client_writes_about_itself_goes_nowhere(
    field: bytes, replica: Replica, client: Client
) -> None:
    name = field.partition(b":")[0].lower()
    for request in (get(field), get(b"A: 1", field.upper(), b"B: 2"), get(field), get(b"x_y: 1", field)):
        assert (await client.ask(request)).status == 200
        seen = replica.requests[-1]
        assert b"6.6.6.6" not in seen.head
        assert b"evil" not in seen.head.lower()
        assert seen.get(b"x-forwarded-for") == [b"127.0.0.1"]
        assert seen.get(b"x-forwarded-proto") == [b"http"]
        assert name in (b"x-forwarded-for", b"x-forwarded-proto") or not seen.get(name)


async def trusted_client(rig: Rig, networks: str) -> Client:
    rig.proxy.stand_behind(TrustedProxies([networks]), False)
    return await rig.client()


async def test_what_a_trusted_proxy_says_goes_on(rig: Rig, replica: Replica) -> None:
    client = await trusted_client(rig, "127.0.0.0/8")
    fields = [b"X-Forwarded-For: 6.6.6.6, 198.51.100.7", b"X-Forwarded-Proto: https", *MADE_UP[3:]]
    assert (await client.ask(get(*fields))).status == 200
    seen = replica.requests[-1]
    assert seen.get(b"x-forwarded-for") == [b"6.6.6.6, 198.51.100.7, 127.0.0.1"]
    assert seen.get(b"x-forwarded-proto") == [b"https"]
    names = {field.partition(b":")[0].lower() for field in MADE_UP[3:]}
    assert {name for name in names if seen.get(name)} == KEPT_FROM_TRUSTED | {b"x-forwarded"}


async def test_of_forwarded_the_addresses_go_on(rig: Rig, replica: Replica) -> None:
    client = await trusted_client(rig, "127.0.0.1")
    assert (
        await client.ask(get(b'Forwarded: for="[2001:db8::1]:80";proto=https, for=10.9.8.7'))
    ).status == 200
    assert replica.requests[-1].get(b"x-forwarded-for") == [b'"[2001:db8::1]:80", 10.9.8.7, 127.0.0.1'] or (
        replica.requests[-1].get(b"x-forwarded-for") == [b'"[2001:db8::1]:80",10.9.8.7, 127.0.0.1']
    )
    assert replica.requests[-1].get(b"forwarded") == []


async def test_another_network_is_not_trusted(rig: Rig, replica: Replica) -> None:
    client = await trusted_client(rig, "10.0.0.0/8")
    assert (await client.ask(get(b"X-Forwarded-For: 198.51.100.7"))).status == 200
    assert replica.requests[-1].get(b"x-forwarded-for") == [b"127.0.0.1"]


async def test_each_request_of_a_trusted_connection_has_its_own_client(rig: Rig, replica: Replica) -> None:
    client = await trusted_client(rig, "127.0.0.1")
    for last in (b"1", b"2", b"2", b"3"):
        assert (await client.ask(get(b"X-Forwarded-For: 198.51.100." + last))).status == 200
        assert replica.requests[-1].get(b"x-forwarded-for") == [b"198.51.100.%b, 127.0.0.1" % last]
    assert (await client.ask(get())).status == 200
    assert replica.requests[-1].get(b"x-forwarded-for") == [b"127.0.0.1"]
