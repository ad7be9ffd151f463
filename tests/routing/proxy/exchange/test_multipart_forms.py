"""Forms (``multipart/form-data``), as audio and images come: how they find their fleet, what is changed."""

import pytest
from msgspec.structs import replace

from routing.contract.body_settings import BodySettings
from routing.contract.policy import Limits, Policy
from routing.contract.table import Match
from routing.proxy import ProxySettings
from tests.routing.proxy.rig import OK_ANSWER, Client, Replica, ReplicaConnection, Rig, Seen, StartRig, until

FIELDS = b'Content-Type: multipart/form-data; boundary="b b"\r\n'
TRANSCRIBE = b"POST /v1/audio/transcriptions"
AUDIO = bytes(range(256)) * 8
MODEL = b'--b b\r\nContent-Disposition: form-data; name="model"\r\n\r\n%b\r\n'
FILE = (
    b'--b b\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n'
    b"Content-Type: audio/wav\r\n\r\n%b\r\n"
)
END = b"--b b--\r\n"


def request(line: bytes, body: bytes, fields: bytes = FIELDS) -> bytes:
    return b"%b HTTP/1.1\r\nHost: a.test\r\nContent-Length: %d\r\n%b\r\n%b" % (line, len(body), fields, body)


def form(model: bytes, first: bool = False, audio: bytes = AUDIO) -> bytes:
    """``first``: the model stands before the file."""
    parts = (MODEL % model, FILE % audio) if first else (FILE % audio, MODEL % model)
    return b"".join((*parts, END))


async def ear(rig: Rig) -> Replica:
    replica = await rig.replica("ear")
    names = {
        "aliases": ("whisper-1",),
        "adapters": ("whisper-de",),
        "served_model": "openai/whisper-large-v3",
    }
    rig.fleet(replica, name="whisper", protocol="openai", match=(Match(host="ear.test"),), **names)
    return replica


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize(
    "line",
    [TRANSCRIBE, b"POST /v1/audio/translations", b"POST /v1/images/edits?x=1", b"POST /fleets/whisper/v1/x"],
)
async def test_the_model_is_found_and_put_right(rig: Rig, line: bytes, first: bool) -> None:
    """However the fleet is found; and every other byte is as it was."""
    replica, client = await ear(rig), await rig.client()
    expected = form(b"openai/whisper-large-v3", first)
    for name in (b"whisper-1", b"whisper", b"openai/whisper-large-v3"):
        if name == b"openai/whisper-large-v3" and b"/fleets/" not in line:
            continue
        assert (await client.ask(request(line, form(name, first)))).status == 200
        seen = replica.requests[-1]
        assert seen.body == expected
        assert seen.get(b"content-length") == [b"%d" % len(expected)]
        assert seen.get(b"content-type") == [b'multipart/form-data; boundary="b b"']
    adapter = form(b"whisper-de", first)
    assert (await client.ask(request(line, adapter))).status == 200
    assert replica.requests[-1].body == adapter


async def test_a_form_in_chunks_and_in_pieces(rig: Rig) -> None:
    replica = await ear(rig)
    body = form(b"whisper-1")
    for step in (7, 300, len(body)):
        client = await rig.client()
        client.send(
            TRANSCRIBE + b" HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n" + FIELDS + b"\r\n"
        )
        for at in range(0, len(body), step):
            piece = body[at : at + step]
            client.send(b"%x\r\n%b\r\n" % (len(piece), piece))
        client.send(b"0\r\n\r\n")
        assert (await client.answer()).status == 200
        assert replica.requests[-1].body == form(b"openai/whisper-large-v3")


async def test_each_form_has_a_boundary_of_its_own(rig: Rig) -> None:
    """On one connection, whose heads are recognised by what they have in common."""
    replica, client = await ear(rig), await rig.client()
    for number in range(6):
        boundary = b"x%d%b" % (number, b"y" * number)
        body = form(b"whisper-1").replace(b"b b", boundary)
        fields = b"Content-Type: multipart/form-data; boundary=" + boundary + b"\r\n"
        assert (await client.ask(request(TRANSCRIBE, body, fields))).status == 200
        assert replica.requests[-1].body == body.replace(b"whisper-1", b"openai/whisper-large-v3")


async def test_work_is_the_length_of_the_form(rig: Rig) -> None:
    """Known for every way in which it may come, and much the same."""
    replica, client = await ear(rig), await rig.client()
    pool = rig.table.fleets["whisper"]
    works: list[float] = []

    async def note(connection: ReplicaConnection, seen: Seen) -> None:
        works.append(pool.replicas[0].work)
        connection.transport.write(OK_ANSWER)

    replica.script = note
    audio = b"x" * 320_000
    await client.ask(request(TRANSCRIBE, form(b"whisper-1", audio=audio)))
    await client.ask(
        request(b"POST /fleets/whisper/v1/audio/transcriptions", form(b"whisper-1", audio=audio))
    )
    generic_path = b"PUT /fleets/whisper/v1/audio/transcriptions"
    await client.ask(request(generic_path, form(b"whisper-1", audio=audio)))
    assert works == [pytest.approx(1000, rel=0.01)] * 3


async def test_a_form_names_no_model_or_one_that_is_not_here(rig: Rig) -> None:
    replica, client = await ear(rig), await rig.client()
    answer = await client.ask(request(TRANSCRIBE, form(b"nope")))
    assert (answer.status, b"'nope'" in answer.body) == (404, True)
    nameless = (FILE % AUDIO) + END
    assert (await client.ask(request(TRANSCRIBE, nameless))).status == 200
    assert replica.requests[-1].body == nameless


async def test_an_encoded_form_is_not_read(rig: Rig) -> None:
    replica, client = await ear(rig), await rig.client()
    encoded = FIELDS + b"Content-Encoding: gzip\r\n"
    body = form(b"whisper-1")
    assert (await client.ask(request(TRANSCRIBE, body, encoded))).status == 200
    assert replica.requests[-1].body == body
    rig.fleet(replica, name="whisper", protocol="openai", default=False)
    manifest = rig.table.manifest
    rig.table.apply_manifest(replace(manifest, version=manifest.version + 1, default=None))
    answer = await client.ask(request(TRANSCRIBE, body, encoded))
    assert (answer.status, b"encoded_body" in answer.body) == (415, True)


async def small_peek(start_rig: StartRig, **more: int) -> tuple[Rig, Replica, Client]:
    rig = await start_rig(ProxySettings(peek_bytes=10_000, **more))
    return rig, await ear(rig), await rig.client()


@pytest.mark.parametrize("name", [b"whisper-1", b"whisper-de", b"whisper"])
@pytest.mark.parametrize("chunked", [False, True])
async def test_a_large_form_that_names_its_model_first_streams_through(
    start_rig: StartRig, name: bytes, chunked: bool
) -> None:
    """The replica has its beginning, model put right, while the rest is unsent."""
    rig, replica, client = await small_peek(start_rig)
    body = form(name, True, b"y" * 100_000)
    served = name if name == b"whisper-de" else b"openai/whisper-large-v3"
    framing = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: %d" % len(body)
    client.send(TRANSCRIBE + b" HTTP/1.1\r\nHost: a.test\r\n" + framing + b"\r\n" + FIELDS + b"\r\n")
    if chunked:
        client.send(b"%x\r\n" % len(body))
    client.send(body[:30])
    await until(lambda: rig.proxy.bodies.used == 30)
    client.send(body[30:-1])
    await until(lambda: replica.connections and len(replica.connections[0].received) > 99_000)
    assert rig.proxy.bodies.used == 0
    client.send(body[-1:] + (b"\r\n0\r\n\r\n" if chunked else b""))
    assert (await client.answer()).status == 200
    seen = replica.requests[0]
    assert seen.body == form(served, True, b"y" * 100_000)
    assert seen.get(b"content-length") == ([] if chunked else [b"%d" % len(seen.body)])
    # The connection is as good as before.
    assert (await client.ask(request(TRANSCRIBE, form(b"whisper-1")))).status == 200


async def test_a_large_form_that_is_all_here_at_once(start_rig: StartRig) -> None:
    """In chunks its length shows only now; and a form that ends just when its model is found."""
    rig, replica, client = await small_peek(start_rig)
    for body in (form(b"whisper-1", True, b"y" * 11_000), form(b"whisper-1", True, b"y" * 200_000)):
        head = TRANSCRIBE + b" HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n" + FIELDS + b"\r\n"
        assert (await client.ask(head + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))).status == 200
        assert replica.requests[-1].body == body.replace(b"whisper-1", b"openai/whisper-large-v3")
    assert rig.proxy.bodies.used == 0


async def test_a_large_form_whose_model_is_found_with_its_last_piece(start_rig: StartRig) -> None:
    rig, replica, client = await small_peek(start_rig)
    body = form(b"whisper-1", True, b"y" * 11_000)
    client.send(
        TRANSCRIBE + b" HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n" + FIELDS + b"\r\n"
    )
    client.send(b"1e\r\n%b\r\n" % body[:30])
    await until(lambda: rig.proxy.bodies.used == 30)
    client.send(b"%x\r\n%b\r\n0\r\n\r\n" % (len(body) - 30, body[30:]))
    assert (await client.answer()).status == 200
    assert replica.requests[-1].body == body.replace(b"whisper-1", b"openai/whisper-large-v3")


async def test_a_large_form_with_its_model_behind_the_file(start_rig: StartRig) -> None:
    """It is told where to put it, as soon as more has come than is searched."""
    rig, replica, client = await small_peek(start_rig)
    whole = request(TRANSCRIBE, form(b"whisper-1", False, b"y" * 100_000))
    client.send(whole[:9_000])
    await until(lambda: rig.proxy.bodies.used > 8_000)
    client.send(whole[9_000:11_000])
    answer = await client.answer()
    assert answer.status == 413
    assert b"put that before the file, or name the fleet in the path" in answer.body
    assert rig.proxy.bodies.used == 0
    other = await rig.client()
    assert (
        await other.ask(request(b"POST /fleets/whisper/v1/audio/x", form(b"a", False, b"y" * 100_000)))
    ).status
    assert replica.requests[-1].body == form(b"a", False, b"y" * 100_000)


async def test_a_large_form_counts_against_the_budget_while_it_is_searched(start_rig: StartRig) -> None:
    _, _, client = await small_peek(start_rig, bodies=BodySettings(memory_bytes=5_000))
    client.send(request(TRANSCRIBE, form(b"whisper-1", False, b"y" * 100_000))[:6_000])
    assert (await client.answer()).status == 503


async def test_a_large_form_that_its_fleet_does_not_take(start_rig: StartRig) -> None:
    rig, replica, client = await small_peek(start_rig)
    policy = Policy(strategy="round_robin", limits=Limits(max_body_bytes=50_000))
    rig.fleet(replica, name="whisper", protocol="openai", policy=policy, aliases=("whisper-1",))
    rig.fleet(replica, name="other", protocol="openai", default=False)
    client.send(request(TRANSCRIBE, form(b"whisper-1", True, b"y" * 60_000))[:20_000])
    answer = await client.answer()
    assert (answer.status, b"at most 50000 bytes" in answer.body) == (413, True)
    assert replica.requests == []
