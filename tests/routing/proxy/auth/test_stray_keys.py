"""A client key where none is read opens nothing, and is kept from replicas all the same."""

from base64 import b64encode

import pytest

from routing.contract.client_keys import ALL_FLEETS, key_hash, new_salt, salt_bytes
from tests.routing.proxy.rig import Client, Replica, Rig

KEY = b"sy-" + b"5eed" * 12
"""Written out: workers of the tests collect the same names of tests."""
SALT = new_salt()
STRAY = [
    (b"Cookie: a=1; key=%b; b=2" % KEY, b"Cookie: a=1; b=2"),
    (b"Cookie: key=%b" % KEY, b""),
    (b"Authorization: Basic " + b64encode(b"user:" + KEY), b""),
    (b"authorization: BASIC  " + b64encode(KEY + b":"), b""),
    (b"api-key: " + KEY, b""),
    (b"X-Goog-Api-Key: " + KEY, b""),
    (b"X-Custom: token=%b" % KEY, b""),
    (
        b"Sec-WebSocket-Protocol: realtime, openai-insecure-api-key.%b, v1" % KEY,
        b"Sec-WebSocket-Protocol: realtime, v1",
    ),
]


def get(*fields: bytes, path: bytes = b"/") -> bytes:
    return b"\r\n".join([b"GET %b HTTP/1.1" % path, b"Host: a.test", *fields]) + b"\r\n\r\n"


@pytest.mark.parametrize(("field", "left"), STRAY)
@pytest.mark.parametrize("keyed", [True, False], ids=["keys", "no-keys"])
async def test_a_stray_key_reaches_no_replica(
    field: bytes, left: bytes, keyed: bool, rig: Rig, replica: Replica, client: Client
) -> None:
    if keyed:
        rig.keys(SALT, {key_hash(salt_bytes(SALT), KEY): [ALL_FLEETS]})
        assert (await client.ask(get(field))).status == 401
    key = b"x-api-key: " + KEY
    # The same head again, and one like it, as the head cache knows them.
    for fields in (
        (key, field),
        (key, field),
        (key, b"X-Request-Id: 1", field),
        (key, b"X-Request-Id: 2", field),
    ):
        assert (await client.ask(get(b"A: 1", *fields, b"B: 2"))).status == 200
        seen = replica.requests[-1]
        assert b"sy-" not in seen.head
        for secret in (b64encode(KEY + b":"), b64encode(b"user:" + KEY)):
            assert secret not in seen.head
        assert (seen.get(b"a"), seen.get(b"b")) == ([b"1"], [b"2"])
        name, _, value = left.partition(b": ")
        assert not left or seen.get(name.lower()) == [value]


async def test_a_key_that_comes_up_in_a_known_head_is_noticed(replica: Replica, client: Client) -> None:
    for value in (b"one", b"two", b"three", b"key=" + KEY, b"four"):
        assert (await client.ask(get(b"Cookie: " + value))).status == 200
        assert b"sy-" not in replica.requests[-1].head
    for user in (b"a:b", b"b:c", b"user:" + KEY):
        assert (await client.ask(get(b"Authorization: Basic " + b64encode(user)))).status == 200
    assert replica.requests[-2].get(b"authorization") == [b"Basic " + b64encode(b"b:c")]
    assert replica.requests[-1].get(b"authorization") == []


@pytest.mark.parametrize(
    ("target", "arrives"),
    [
        (b"/x?key=" + KEY, b"/x"),
        (b"/x?a=1&api_key=%b&b=%%20" % KEY, b"/x?a=1&b=%20"),
        (b"/x?a=1&key=" + KEY.replace(b"-", b"%2D"), b"/x?a=1"),
        (b"/fleets/f/x?" + KEY, b"/x"),
        (b"/x?a=sy-short&b=easy-%b" % (b"0" * 48), b"/x?a=sy-short&b=easy-%b" % (b"0" * 48)),
    ],
)
async def test_a_key_in_the_query_is_left_out(
    target: bytes, arrives: bytes, replica: Replica, client: Client
) -> None:
    for _ in range(2):
        assert (await client.ask(get(path=target))).status == 200
        assert replica.requests[-1].line == b"GET %b HTTP/1.1" % arrives


async def test_what_only_looks_like_one_goes_on(replica: Replica, client: Client) -> None:
    fields = [b"Cookie: a=sy-short; b=1", b"X-Id: easy-" + b"0" * 48, b"Authorization: Basic !!!"]
    assert (await client.ask(get(*fields))).status == 200
    for field in fields:
        assert field in replica.requests[-1].head
