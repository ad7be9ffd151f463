"""Client keys: who is let in, to which fleet, and that no key ever arrives at a replica."""

import json
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from routing.balancing.pool.table import Table, TableRefused
from routing.contract.client_keys import ALL_FLEETS, key_hash, new_key, new_salt, salt_bytes
from routing.contract.priority import PRIORITIES
from routing.contract.table import KeyLimits, Manifest
from routing.proxy import ProxySettings
from routing.proxy.auth.client_keys import ClientKeys
from routing.shared.key_quotas import KeyQuotas
from routing.shared.quota_share import QuotaShare
from tests.routing.proxy.rig import Answer, Client, Replica, Rig, StartRig, until

KEY, OTHER = new_key().encode(), new_key().encode()
SALT = new_salt()
NO_USES = KeyQuotas(None, QuotaShare())
CHAT = b'{"model": "f", "messages": []}'


def let_in(rig: Rig, keys: dict[bytes, Sequence[str]], required: bool | None = None) -> None:
    """These keys, and no others, are in force from now on."""
    hashes = {key_hash(salt_bytes(SALT), key): list(fleets) for key, fleets in keys.items()}
    rig.keys(SALT, hashes, required=required)


def get(*fields: bytes, path: bytes = b"/") -> bytes:
    return b"\r\n".join([b"GET %b HTTP/1.1" % path, b"Host: a.test", *fields]) + b"\r\n\r\n"


def bearer(key: bytes = KEY) -> bytes:
    return b"Authorization: Bearer " + key


def said(answer: Answer) -> str:
    """The message of an error in any protocol's shape."""
    body = json.loads(answer.body)
    error = body.get("error", body)
    return str(error if isinstance(error, str) else error.get("message") or error["detail"])


async def test_without_any_key_everybody_is_served(client: Client) -> None:
    assert (await client.ask(get())).status == 200
    assert (await client.ask(get(bearer()))).status == 200


@pytest.mark.parametrize(
    "field",
    [
        b"Authorization: Bearer %b",
        b"authorization: bearer %b",
        b"AUTHORIZATION:BEARER %b",
        b"Authorization: \t Bearer  \t %b \t",
        b"Authorization: %b",
        b"Authorization: Token %b",
        b"Authorization: Bearer x, Bearer %b",
        b"X-Api-Key: %b",
        b"x-api-key:%b",
        b"X-API-KEY:\t%b  ",
        b"x-api-key: Bearer %b",
    ],
)
@pytest.mark.parametrize("place", ["first", "between", "last", "twice"])
@pytest.mark.parametrize("keyed", [True, False], ids=["keys", "no-keys"])
async def test_a_key_is_taken_and_never_forwarded(
    field: bytes, place: str, keyed: bool, rig: Rig, replica: Replica, client: Client
) -> None:
    if keyed:
        let_in(rig, {KEY: [ALL_FLEETS]})
    line = field % KEY
    others = [b"Accept: */*", b"X-Trace: 1"]
    fields = {
        "first": [line, *others],
        "between": [others[0], line, others[1]],
        "last": [*others, line],
        "twice": [line, *others, line],
    }[place]
    request = get(*fields)
    for send in (client.ask, client.ask):
        assert (await send(request)).status == 200
    await client.send_bytewise(request)
    assert (await client.answer()).status == 200
    head = b"GET / HTTP/1.0\r\nX_Under: 1\r\n" + line + b"\r\n\r\n"
    assert (await client.ask(head)).status == 200
    assert len(replica.requests) == 4
    for seen in replica.requests:
        assert b"sy-" not in seen.head
        assert KEY not in bytes(seen.connection.received)
    assert replica.requests[0].get(b"accept") == [b"*/*"]
    assert replica.requests[0].get(b"x-trace") == [b"1"]


async def test_both_fields_and_a_nominated_one(rig: Rig, replica: Replica, client: Client) -> None:
    let_in(rig, {KEY: [ALL_FLEETS]})
    both = get(b"x-api-key: " + KEY, bearer(OTHER), b"Connection: x-api-key")
    assert (await client.ask(both)).status == 200
    assert b"sy-" not in replica.requests[0].head
    # The first one counts.
    assert (await client.ask(get(bearer(OTHER), b"x-api-key: " + KEY))).status == 401


async def test_another_credential_is_the_replicas(rig: Rig, replica: Replica, client: Client) -> None:
    let_in(rig, {KEY: [ALL_FLEETS]})
    assert (await client.ask(get(b"x-api-key: " + KEY, b"Authorization: Bearer its-own"))).status == 200
    assert replica.requests[0].get(b"authorization") == [b"Bearer its-own"]
    assert replica.requests[0].get(b"x-api-key") == []
    assert (await client.ask(get(bearer(), b"x-api-key: its-own"))).status == 200
    assert replica.requests[1].get(b"x-api-key") == [b"its-own"]
    assert replica.requests[1].get(b"authorization") == []


@pytest.mark.parametrize(
    ("path", "content_type"),
    [
        (b"/v1/models", b"application/json"),
        (b"/v2/models/f/infer", b"application/json"),
        (b"/anything", b"application/problem+json"),
        (b"/fleets/f/v1/models", b"application/json"),
    ],
)
@pytest.mark.parametrize(
    ("fields", "words", "challenge"),
    [
        ((), "carries no client key", b'Bearer realm="switchyard"'),
        ((b"Authorization: Bearer its-own",), "carries no client key", b'Bearer realm="switchyard"'),
        ((bearer(OTHER),), "the client key is unknown", b'Bearer realm="switchyard", error="invalid_token"'),
        (
            (bearer(KEY[:-1]),),
            "the client key is unknown",
            b'Bearer realm="switchyard", error="invalid_token"',
        ),
        (
            (bearer(KEY + b"0"),),
            "the client key is unknown",
            b'Bearer realm="switchyard", error="invalid_token"',
        ),
        ((bearer(KEY.upper()),), "carries no client key", b'Bearer realm="switchyard"'),
        (
            (bearer(b"sy-" + b"0" * 4000),),
            "the client key is unknown",
            b'Bearer realm="switchyard", error="invalid_token"',
        ),
    ],
    ids=["none", "foreign", "unknown", "cut-off", "too-long", "upper-case", "huge"],
)
async def test_who_has_no_key_is_told_so(
    path: bytes,
    content_type: bytes,
    fields: tuple[bytes, ...],
    words: str,
    challenge: bytes,
    rig: Rig,
    replica: Replica,
    client: Client,
) -> None:
    let_in(rig, {KEY: [ALL_FLEETS]})
    answer = await client.ask(get(*fields, path=path))
    assert answer.status == 401
    assert answer.get(b"www-authenticate") == [challenge]
    assert answer.get(b"content-type") == [content_type]
    assert words in said(answer)
    assert KEY.decode() not in said(answer)
    assert replica.requests == []
    assert rig.proxy.rejected == 1
    # The connection goes on.
    assert (await client.ask(get(bearer()))).status == 200


async def test_a_body_is_not_waited_for(rig: Rig, replica: Replica, client: Client) -> None:
    let_in(rig, {KEY: [ALL_FLEETS]})
    client.send(b"POST /v1/completions HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1000\r\n\r\n{")
    answer = await client.answer(b"POST")
    assert answer.status == 401
    assert answer.get(b"connection") == [b"close"]
    assert await client.ends() == b""
    expecting = await rig.client()
    expecting.send(
        b"POST /v1/completions HTTP/1.1\r\nHost: a.test\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n"
    )
    assert (await expecting.answer(b"POST")).status == 401
    assert replica.requests == []


async def test_a_key_for_some_fleets(rig: Rig, client: Client) -> None:
    chat, embed = rig.replicas[0], await rig.replica()
    rig.fleet(chat, name="f", protocol="openai", aliases=("chat",))
    rig.fleet(embed, name="embed", protocol="openai", default=False)
    let_in(rig, {KEY: ["embed"], OTHER: [ALL_FLEETS]})

    def post(key: bytes, model: bytes) -> bytes:
        body = b'{"model": "%b", "input": "x"}' % model
        length = b"Content-Length: %d" % len(body)
        lines = [b"POST /v1/embeddings HTTP/1.1", b"Host: a.test", bearer(key), length]
        return b"\r\n".join(lines) + b"\r\n\r\n" + body

    assert (await client.ask(post(KEY, b"embed"))).status == 200
    for model in (b"f", b"chat"):
        refused = await client.ask(post(KEY, model))
        assert refused.status == 403
        assert said(refused) == "this client key may not use fleet 'f': it may use embed"
        assert refused.get(b"www-authenticate") == []
        assert (await client.ask(post(OTHER, model))).status == 200
    for path in (b"/fleets/f/v1/models", b"/v2/models/f/infer"):
        assert (await client.ask(get(bearer(), path=path))).status == 403
    assert len(chat.requests) == 2
    models = json.loads((await client.ask(get(bearer(), path=b"/v1/models"))).body)["data"]
    assert [model["id"] for model in models] == ["embed"]
    assert (await client.ask(get(bearer(), path=b"/v1/models/chat"))).status == 404
    unknown = await client.ask(post(KEY, b"nope"))
    assert (unknown.status, said(unknown).split("; ")[1]) == (404, "known: embed")
    assert said(await client.ask(post(OTHER, b"nope"))).endswith("; known: chat, embed, f")
    models = json.loads((await client.ask(get(bearer(OTHER), path=b"/v1/models"))).body)["data"]
    assert [model["id"] for model in models] == ["chat", "embed", "f"]
    let_in(rig, {KEY: []})
    gone = await client.ask(post(KEY, b"embed"))
    assert (gone.status, said(gone)) == (
        403,
        "this client key may not use fleet 'embed': its fleets were deleted",
    )


def plain(path: bytes, body: bytes, *fields: bytes) -> bytes:
    length = b"Content-Length: %d" % len(body)
    return b"\r\n".join([b"POST %b HTTP/1.1" % path, b"Host: a.test", *fields, length]) + b"\r\n\r\n" + body


UNNAMED = [
    get(bearer(), path=b"/elsewhere"),
    plain(b"/v1/completions", b'{"prompt": "x"}', bearer()),
    plain(b"/v1/completions", b"\x1f\x8b", bearer(), b"Content-Encoding: gzip"),
    plain(b"/v1/completions", b'{"model": "f", "prompt": "%b"}' % (b"x" * 300_000), bearer()),
    plain(b"/upload", b"x" * 300_000, bearer()),
]
"""Nothing that is looked at names a fleet: one as large as these is not searched."""
UNNAMED_IDS = ["path", "no model", "encoded", "too large to search", "large, not searched"]


@pytest.mark.parametrize("request_bytes", UNNAMED, ids=UNNAMED_IDS)
async def test_a_key_for_one_fleet_names_it_where_nothing_else_does(
    start_rig: StartRig, request_bytes: bytes
) -> None:
    rig = await start_rig(ProxySettings(peek_bytes=1000))
    default, own = await rig.replica(), await rig.replica()
    rig.fleet(default, name="f", protocol="openai")
    rig.fleet(own, name="own", protocol="openai", default=False)
    client = await rig.client()
    let_in(rig, {KEY: ["own"]})
    assert (await client.ask(request_bytes)).status == 200
    assert [len(replica.requests) for replica in (default, own)] == [0, 1]
    assert own.requests[0].body == request_bytes.partition(b"\r\n\r\n")[2]
    # Where it is gone, or one of several, the default fleet is meant as without any key.
    for fleets, status in ((["gone"], {403, 413}), (["own", "f"], {200, 413}), ([ALL_FLEETS], {200, 413})):
        let_in(rig, {KEY: fleets})
        other = await rig.client()
        assert (await other.ask(request_bytes)).status in status
    assert len(own.requests) == 1


async def test_a_body_that_comes_later_is_judged_by_its_model(
    rig: Rig, replica: Replica, client: Client
) -> None:
    rig.fleet(replica, protocol="openai")
    let_in(rig, {KEY: ["other"]})
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: a.test\r\n%b\r\nContent-Length: %d\r\n\r\n"
    client.send(head % (bearer(), len(CHAT)))
    await until(lambda: rig.proxy.clients == 1)
    client.send(CHAT)
    assert (await client.answer(b"POST")).status == 403
    assert replica.requests == []


async def test_keys_change_on_one_connection(rig: Rig, replica: Replica, client: Client) -> None:
    """Alike heads are recognised by a template; that must neither let one in nor keep one out."""
    rig.fleet(replica, protocol="openai")
    let_in(rig, {KEY: ["f"], OTHER: [ALL_FLEETS]})
    unknown = new_key().encode()

    def post(number: int, *fields: bytes) -> bytes:
        body = b'{"model": "f", "prompt": "%b"}' % (b"x" * number)
        lines = [b"POST /v1/completions HTTP/1.1", b"Host: a.test", b"X-Request-Id: r%d" % number, *fields]
        return b"\r\n".join([*lines, b"Content-Length: %d" % len(body)]) + b"\r\n\r\n" + body

    turns = [(KEY, 200), (OTHER, 200), (unknown, 401), (b"its-own", 401), (KEY, 200), (KEY[:-1], 401)]
    for number in range(40):
        key, status = turns[number % len(turns)]
        assert (await client.ask(post(number, bearer(key)))).status == status, number
    for number in range(10):
        assert (await client.ask(post(number))).status == 401
        assert (await client.ask(post(number, b"x-api-key: " + KEY))).status == 200
        assert (
            await client.ask(post(number, b"x-api-key: " + KEY, b"Authorization: Bearer own"))
        ).status == 200
    assert len(replica.requests) > 30
    for seen in replica.requests:
        assert b"sy-" not in seen.head
    assert {value for seen in replica.requests for value in seen.get(b"authorization")} == {b"Bearer own"}


async def test_credentials_of_replicas_change_on_one_connection(
    rig: Rig, replica: Replica, client: Client
) -> None:
    """No key is asked for: each value arrives as it was sent, and a key in their midst does not."""
    values = [b"Bearer one", b"Bearer two", b"Bearer " + KEY, b"Basic eA==", b"Bearer " + OTHER, b"Bearer sy"]
    for value in values * 3:
        assert (await client.ask(get(b"Authorization: " + value))).status == 200
    arrived = [seen.get(b"authorization") for seen in replica.requests]
    assert arrived == [[] if b"sy-" in value else [value] for value in values * 3]


async def test_pipelined_requests_with_different_keys(rig: Rig, replica: Replica, client: Client) -> None:
    let_in(rig, {KEY: [ALL_FLEETS]})
    client.send(get(bearer()) + get() + get(bearer(OTHER)) + get(bearer()))
    assert [(await client.answer()).status for _ in range(4)] == [200, 401, 401, 200]
    assert len(replica.requests) == 2


async def test_a_revoked_key_ends_with_the_next_request(rig: Rig, replica: Replica, client: Client) -> None:
    let_in(rig, {KEY: [ALL_FLEETS], OTHER: [ALL_FLEETS]})
    assert [(await client.ask(get(bearer()))).status for _ in range(3)] == [200] * 3
    let_in(rig, {OTHER: [ALL_FLEETS]})
    assert (await client.ask(get(bearer()))).status == 401
    let_in(rig, {})
    assert (await client.ask(get(bearer()))).status == 200
    assert (await client.ask(get())).status == 200
    assert all(b"sy-" not in seen.head for seen in replica.requests)


async def test_keys_may_be_required_before_there_is_one(rig: Rig, replica: Replica, client: Client) -> None:
    rig.proxy.require_keys("ask the keeper for one")
    refused = await client.ask(get(bearer()))
    assert refused.status == 401
    assert "no client key exists yet: ask the keeper for one, then send it as" in said(refused)
    assert "--open" in said(refused)
    let_in(rig, {KEY: [ALL_FLEETS]})
    assert (await client.ask(get())).status == 401
    assert (await client.ask(get(bearer()))).status == 200
    let_in(rig, {})
    assert (await client.ask(get(bearer()))).status == 401


async def test_revoking_the_last_key_does_not_open_the_proxy(
    rig: Rig, replica: Replica, client: Client
) -> None:
    rig.proxy.where_keys_are_made = "make one on the page"
    let_in(rig, {KEY: [ALL_FLEETS]}, required=True)
    assert (await client.ask(get(bearer()))).status == 200
    let_in(rig, {}, required=True)
    for fields in ((), (bearer(),)):
        refused = await client.ask(get(*fields))
        assert refused.status == 401
        assert said(refused).startswith(
            "client keys are required, and none is in force: make one on the page"
        )
    let_in(rig, {}, required=False)
    assert (await client.ask(get())).status == 200


async def test_where_keys_are_not_required_a_known_one_keeps_its_fleets(
    rig: Rig, replica: Replica, client: Client
) -> None:
    rig.fleet(await rig.replica(), name="other", default=False)
    let_in(rig, {KEY: ["other"]}, required=False)
    for fields in ((), (bearer(OTHER),), (b"Authorization: Bearer own",)):
        assert (await client.ask(get(*fields, path=b"/fleets/f/x"))).status == 200
    assert (await client.ask(get(bearer(), path=b"/fleets/f/x"))).status == 403
    assert all(b"sy-" not in seen.head for seen in replica.requests)
    rig.proxy.require_keys("ask the keeper for one")
    assert (await client.ask(get(path=b"/fleets/f/x"))).status == 401


async def test_what_is_in_flight_goes_on(start_rig: StartRig) -> None:
    rig = await start_rig(ProxySettings())
    replica = await rig.replica()
    rig.fleet(replica)
    client = await rig.client()
    client.send(b"POST /x HTTP/1.1\r\nHost: a.test\r\nContent-Length: 2\r\n\r\na")
    await until(lambda: replica.open)
    let_in(rig, {KEY: [ALL_FLEETS]})
    client.send(b"b")
    assert (await client.answer(b"POST")).status == 200
    assert (await client.ask(get())).status == 401


def test_a_keyed_hash_decides_and_unknown_keys_are_not_kept() -> None:
    digest = key_hash(salt_bytes(SALT), KEY)
    keys = ClientKeys(Manifest(epoch=1, version=1, key_salt=SALT, key_hashes={digest: ["a"]}), NO_USES)
    grant = keys.grant(KEY)
    assert grant is not None
    assert grant.opens("a")
    assert not grant.opens("b")
    assert keys.grant(KEY) is grant
    for _ in range(100):
        assert keys.grant(new_key().encode()) is None
    assert set(keys._seen) == {KEY}
    elsewhere = Manifest(epoch=1, version=1, key_salt=new_salt(), key_hashes={digest: ["a"]})
    assert ClientKeys(elsewhere, NO_USES).grant(KEY) is None
    assert not ClientKeys(Manifest(epoch=1, version=1), NO_USES)


def test_a_key_without_limits_is_of_the_middle_class() -> None:
    digest = key_hash(salt_bytes(SALT), KEY)
    manifest = Manifest(epoch=1, version=1, key_salt=SALT, key_hashes={digest: ["a"]})
    assert priority_of(manifest) == PRIORITIES.index("normal")
    for rank, priority in enumerate(PRIORITIES):
        limits = {digest: KeyLimits(id="1", priority=priority)}
        assert priority_of(replace(manifest, key_limits=limits)) == rank


def priority_of(manifest: Manifest) -> int:
    grant = ClientKeys(manifest, NO_USES).grant(KEY)
    assert grant is not None
    return grant.priority


@pytest.mark.parametrize("salt", ["", "00", "no hex", "00" * 65])
def test_hashes_that_cannot_be_checked_are_refused_and_the_last_table_stays(salt: str) -> None:
    table = Table()
    table.apply_manifest(Manifest(epoch=1, version=1))
    with pytest.raises(TableRefused, match="no client key can be checked, key_salt is not valid"):
        table.apply_manifest(Manifest(epoch=1, version=2, key_salt=salt, key_hashes={"00": ["*"]}))
    assert table.version == (1, 1)
