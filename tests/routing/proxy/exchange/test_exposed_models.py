"""Names of models where they decide: fleets that share a host, and fleets that declare their names."""

import gzip
import json

import pytest

from routing.proxy import ProxySettings
from tests.routing.proxy.rig import Answer, Client, Replica, Rig, StartRig

FORM = "Content-Type: multipart/form-data; boundary=xx\r\n"
JSON = "Content-Type: application/json\r\n"
URLENCODED = "Content-Type: application/x-www-form-urlencoded\r\n"


def form(*parts: tuple[str, bytes]) -> bytes:
    pieces = [f"--xx\r\n{head}\r\n\r\n".encode() + value + b"\r\n" for head, value in parts]
    return b"".join(pieces) + b"--xx--\r\n"


def field(name: str) -> str:
    return f'Content-Disposition: form-data; name="{name}"'


FILE = 'Content-Disposition: form-data; name="file"; filename="a.wav"\r\nContent-Type: audio/wav'


async def ask(client: Client, line: str, body: bytes = b"", fields: str = JSON) -> Answer:
    method, path = line.split(" ")
    head = f"{method} {path} HTTP/1.1\r\nHost: a.test\r\n"
    if body:
        head += f"{fields}Content-Length: {len(body)}\r\n"
    return await client.ask(head.encode() + b"\r\n" + body)


def code_of(answer: Answer) -> str:
    said = json.loads(answer.body)
    error = said.get("error", said)
    return str(error if isinstance(error, str) else error["code"])


async def shared(rig: Rig, protocol: str = "openai", expose: object = "inference") -> Replica:
    """Fleets ``a`` and ``b``, both of one server."""
    server = await rig.replica("server")
    for name in ("b", "a"):
        rig.fleet(server, name=name, protocol=protocol, expose=expose)  # type: ignore[arg-type]
    return server


@pytest.mark.parametrize("protocol", ["openai", "open-inference", "generic"])
async def test_a_model_of_another_fleet_in_the_path(rig: Rig, protocol: str) -> None:
    server, client = await shared(rig, protocol), await rig.client()
    paths = [
        *(
            "/v2/models/b/infer",
            "/v2/models/b/versions/1/infer",
            "/v2/models/%62/infer",
            "/v2//models/b/infer",
        ),
        *("/v2/models/a%2F/../b/infer", "/v2/models;x/b/infer", "/v1/models/b:predict", "/v1/models/b"),
        *("/predictions/b", "/predictions/b/1.0", "/explanations/b", "/v2%2Fmodels%2Fb%2Finfer"),
        *("/v2/models/ab/infer", "/openai/deployments/b/chat/completions", "/v1/engines/b/completions"),
        *("/v1beta/models/b:generateContent", "/v3/models/b/infer", "/api/v1/models/b"),
    ]
    for path in paths:
        for method in ("POST", "GET"):
            answer = await ask(client, f"{method} /fleets/a{path}", b"{}" if method == "POST" else b"")
            assert answer.status in (400, 403), path
            if "path_not_exposed" not in answer.body.decode() and answer.status == 403:
                assert "'b'" in answer.body.decode() or "'ab'" in answer.body.decode(), path
    assert not server.requests
    for path in ("/v2/models/a/infer", "/v2/models/a/versions/1/infer"):
        assert (await ask(client, f"POST /fleets/a{path}", b"{}")).status == 200
    # By its path the request is fleet b's, and a key of a alone does not open that.
    assert (await ask(client, "POST /v2/models/b/infer", b"{}")).status == 200
    assert len(server.requests) == 3


BODIES = {
    "another model": (b'{"model": "b"}', JSON),
    "escaped": (b'{"\\u006dodel": "b"}', JSON),
    "another case": (b'{"Model": "b"}', JSON),
    "two members": (b'{"model": "b", "model": "a"}', JSON),
    "two members, the other way": (b'{"model": "a", "model": "b"}', JSON),
    "two members in two cases": (b'{"model": "a", "MODEL": "b"}', JSON),
    "without a type": (b'{"model": "b"}', ""),
    "of a wrong type": (b'{"model": "b"}', "Content-Type: text/plain\r\n"),
    "an object sent as a form": (b'{"model": "b"}', FORM),
    "an object sent as a form of curl": (b'{"model": "b"}', URLENCODED),
    "two types": (b'{"model": "b"}', FORM + JSON),
    "two types, the other way": (b'{"model": "b"}', JSON + FORM),
    "UTF-16": ('{"model": "b"}'.encode("utf-16"), JSON),
    "a byte order mark": (b'\xef\xbb\xbf{"model": "b"}', JSON),
    "another character set": (b'{"+AG0-odel": "b"}', "Content-Type: application/json; charset=utf-7\r\n"),
    "a byte order mark, sent as a form": (b'\xef\xbb\xbf{"model":"b","x":"&model=a&"}', URLENCODED),
    "UTF-16, sent as a form": ('{"model":"b"}'.encode("utf-16-be"), URLENCODED),
    "a form that begins with a control character": (b'\x0b{"model":"b","x":"&model=a&"}', URLENCODED),
    "not a number": (b'{"model": "b", "x": NaN}', JSON),
    "a list": (b'[{"model": "b"}]', JSON),
    "no text": (b'{"model": ["b"]}', JSON),
    "none": (b'{"prompt": "x"}', JSON),
    "encoded": (gzip.compress(b'{"model": "b"}'), JSON + "Content-Encoding: gzip\r\n"),
    "urlencoded": (b"prompt=x&m%6fdel=b", URLENCODED),
    "form": (form((field("model"), b"b"), (FILE, b"RIFF")), FORM),
    "form, behind the file": (form((FILE, b"RIFF"), (field("model"), b"b")), FORM),
    "form with two": (form((field("model"), b"a"), (field("model"), b"b")), FORM),
    "preamble": (b"x\r\n" + form((field("model"), b"a"), (field("model"), b"b")), FORM),
    "blank line before": (b"\r\n" + form((field("model"), b"b")), FORM),
    "never closed": (form((field("model"), b"a"))[:-6], FORM),
    "epilogue": (form((field("model"), b"a")) + b"--xx\r\n" + form((field("model"), b"b")), FORM),
    "line feeds": (form((field("model"), b"b")).replace(b"\r\n", b"\n"), FORM),
    "a line feed in the data": (
        form((FILE, b'x\n--xx\nContent-Disposition: form-data; name="model"\n\nb')),
        FORM,
    ),
    "many parts": (form(*[(field("x"), b"")] * 1001, (field("model"), b"b")), FORM),
    "two dispositions": (form((field("x") + "\r\n" + field("model"), b"b")), FORM),
    "an extended name": (form(("Content-Disposition: form-data; name=x; name*=utf-8''model", b"b")), FORM),
    "two names": (form(('Content-Disposition: form-data; name="x"; name="model"', b"b")), FORM),
    "an escaped quote": (form(('Content-Disposition: form-data; filename="\\"; name="model"', b"b")), FORM),
    "an escaped name": (form(('Content-Disposition: form-data; name="mod\\el"', b"b")), FORM),
    "a folded field": (form(('Content-Disposition: form-data;\r\n name="model"', b"b")), FORM),
    "no disposition": (form(("Content-Type: text/plain", b"b")), FORM),
    "a transfer encoding": (form((field("model") + "\r\nContent-Transfer-Encoding: base64", b"Yg==")), FORM),
    "a part in another set": (form((field("x") + "\r\nContent-Type: text/plain; charset=utf-7", b"b")), FORM),
    "a form in another set": (form((field("+AG0-odel"), b"b")), FORM.replace("xx", "xx; charset=utf-7")),
    "two boundaries": (form((field("model"), b"b")), FORM.replace("xx", "yy; boundary=xx")),
    "no boundary": (form((field("model"), b"b")), "Content-Type: multipart/form-data\r\n"),
}


@pytest.mark.parametrize("what", BODIES)
@pytest.mark.parametrize("protocol", ["openai", "open-inference"])
async def test_a_model_of_another_fleet_in_the_body(rig: Rig, protocol: str, what: str) -> None:
    server = await shared(rig, protocol)
    body, fields = BODIES[what]
    for method in ("POST", "PUT"):
        client = await rig.client()
        answer = await ask(client, f"{method} /fleets/a/v1/chat/completions", body, fields)
        if (what, method) == ("none", "PUT"):
            continue  # no server takes that for a call
        assert answer.status in (400, 403, 415), (what, answer.body)
        assert not server.requests
    rejected = rig.table.fleets["a"].counters.not_exposed
    assert rejected == (1 if what == "none" else 2)


@pytest.mark.parametrize(
    "path", ["/v1/chat/completions?model=b", "/v1/completions?x=1&%6dodel=b", "/tokenize?model=a;model=b"]
)
async def test_a_model_of_another_fleet_in_the_query(rig: Rig, path: str) -> None:
    server, client = await shared(rig), await rig.client()
    answer = await ask(client, f"POST /fleets/a{path}", b'{"model": "a"}')
    assert (answer.status, code_of(answer)) == (403, "model_not_exposed")
    assert not server.requests


PLAIN = {
    "own": (b'{"model": "a", "messages": [{"model": "b"}]}', JSON),
    "with a character set": (b'{"model": "a"}', "Content-Type: application/json; charset=UTF-8\r\n"),
    "form": (form((FILE, b"RIFF\r\n--x\r\n"), (field("model"), b"a")), FORM),
    "quoted boundary": (form((field("model"), b"a")), FORM.replace("xx", '"xx"')),
    "urlencoded": (b"model=a&prompt=model%3Db", URLENCODED),
    "chunked": (b'{"model": "a"}', JSON),
}


@pytest.mark.parametrize("what", PLAIN)
async def test_the_fleet_s_own_model_passes_unchanged(rig: Rig, what: str) -> None:
    server, client = await shared(rig), await rig.client()
    body, fields = PLAIN[what]
    if what == "chunked":
        head = f"POST /fleets/a/v1/chat/completions HTTP/1.1\r\nHost: a\r\n{fields}"
        head += "Transfer-Encoding: chunked\r\n\r\n"
        chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body)
        answer = await client.ask(head.encode() + chunks + b"0\r\n\r\n")
    else:
        answer = await ask(client, "POST /fleets/a/v1/chat/completions", body, fields)
    assert answer.status == 200, answer.body
    assert server.requests[-1].body == body


async def test_what_is_enforced_by_neighbours(rig: Rig) -> None:
    server, client = await rig.replica("server"), await rig.client()
    rig.fleet(server, name="a", protocol="openai", expose="inference")

    async def reaches_b() -> bool:
        answer = await ask(client, "POST /fleets/a/v1/completions", b'{"model": "b"}')
        return answer.status == 200

    assert await reaches_b(), "nobody else is at this host, and no names are declared"
    rig.fleet(server, name="b", protocol="openai", expose="inference", prefix="/b")
    assert not await reaches_b(), "what is below /b is below / too"
    rig.fleet(server, name="a", protocol="openai", expose="inference", prefix="/a")
    assert await reaches_b(), "neither leads to the other's"
    rig.fleet(server, name="b", protocol="openai", expose="inference", prefix="/a")
    assert not await reaches_b()
    rig.fleet(name="b", protocol="openai", expose="inference")
    assert await reaches_b(), "b has no replicas any more"
    rig.fleet(server, name="a", protocol="openai", expose="all", served_model="x")
    rig.fleet(server, name="b", protocol="openai", expose="inference")
    assert await reaches_b(), "the fleet exposes all"


async def test_declared_names(rig: Rig) -> None:
    server, client = await rig.replica(), await rig.client()
    rig.fleet(
        *(server,),
        name="a",
        protocol="openai",
        served_model="org/A",
        aliases=("gpt",),
        adapters=("sql-lora",),
        expose="inference",
    )
    for name, known in (("a", "org/A"), ("gpt", "org/A"), ("org/A", "org/A"), ("sql-lora", "sql-lora")):
        answer = await ask(client, "POST /fleets/a/v1/completions", json.dumps({"model": name}).encode())
        assert answer.status == 200, name
        assert json.loads(server.requests[-1].body)["model"] == known
    answer = await ask(client, "POST /fleets/a/v1/completions", b'{"model": "other-lora"}')
    assert (answer.status, code_of(answer)) == (403, "model_not_exposed")
    assert "'other-lora'" in answer.body.decode()
    # Here a server's default can only be the fleet's own model.
    assert (await ask(client, "POST /fleets/a/v1/completions", b'{"prompt": ""}')).status == 200
    for path, status in (("org%2FA", 200), ("org/A", 200), ("other", 403), ("sql-lora", 200)):
        answer = await ask(client, f"GET /fleets/a/v1/models/{path}")
        assert answer.status == status, path


async def test_a_name_with_a_slash_in_a_path(rig: Rig) -> None:
    server, client = await rig.replica(), await rig.client()
    rig.fleet(server, name="a", protocol="open-inference", served_model="org/A", expose="inference")
    assert (await ask(client, "POST /v2/models/a/infer", b"{}")).status == 200
    assert server.requests[-1].line == b"POST /v2/models/org%2FA/infer HTTP/1.1"
    assert (await ask(client, "POST /fleets/a/v2/models/org%2FA/infer", b"{}")).status == 200
    for path in ("org%2FB", "org", "org%2FAx", "B%2Forg%2FA"):
        answer = await ask(client, f"POST /fleets/a/v2/models/{path}/infer", b"{}")
        assert (answer.status, code_of(answer)[:5]) == (403, "the p"), path


async def test_large_bodies(start_rig: StartRig) -> None:
    rig = await start_rig(ProxySettings(peek_bytes=1000))
    server, client = await shared(rig), await rig.client()
    large = b'{"model": "b", "prompt": "' + b"x" * 2_000_000 + b'"}'
    answer = await ask(client, "POST /fleets/a/v1/completions", large)
    assert (answer.status, code_of(answer)) == (413, "body_too_large_to_search")
    assert not server.requests
    # The path names the model, so nothing is searched.
    client = await rig.client()
    assert (await ask(client, "POST /fleets/a/v2/models/a/infer", large)).status == 200
    assert (await ask(client, "POST /fleets/a/v2/models/b/infer", large)).status == 403


@pytest.mark.parametrize("last", ["a", "b", "", "unclosed"])
async def test_a_large_form_is_read_while_it_is_forwarded(start_rig: StartRig, last: str) -> None:
    rig = await start_rig(ProxySettings(peek_bytes=1000))
    server, client = await shared(rig), await rig.client()
    body = form((field("model"), b"a"), (FILE, b"RIFF" * 300_000), (field("model"), last.encode()))
    if last == "unclosed":
        body = form((field("model"), b"a"), (FILE, b"RIFF" * 300_000))[:-4]
    answer = await ask(client, "POST /fleets/a/v1/audio/transcriptions", body, FORM)
    assert answer.status == {"a": 200, "b": 403, "": 403, "unclosed": 400}[last]
    if last == "a":
        assert server.requests[-1].body == body
        assert rig.table.fleets["a"].counters.not_exposed == 0
    else:
        assert not server.requests, "the replica has no whole request"
        assert rig.table.fleets["a"].counters.not_exposed == 1
    # Nothing is forwarded where the beginning says enough.
    client, begun = await rig.client(), len(server.connections)
    body = form((field("model"), b"b"), (FILE, b"RIFF" * 300_000))
    assert (await ask(client, "POST /fleets/a/v1/audio/transcriptions", body, FORM)).status == 403
    assert len(server.connections) == begun


async def test_fleets_from_before_count_only(rig: Rig) -> None:
    server, client = await shared(rig, expose=None), await rig.client()
    for body, fields in (BODIES["another model"], BODIES["preamble"], BODIES["encoded"], BODIES["none"]):
        answer = await ask(client, "POST /fleets/a/v1/completions", body, fields)
        assert answer.status == 200, body
        assert server.requests[-1].body == body
    counters = rig.table.fleets["a"].counters
    assert (counters.would_refuse, counters.not_exposed) == (4, 0)
    await ask(client, "POST /fleets/a/v1/completions", b'{"model": "a"}')
    assert counters.would_refuse == 4


@pytest.mark.parametrize(
    "members",
    [
        b'"lora_path":"other-lora"',
        b'"lora_path":[null,"other-lora"]',
        b'"parameters":{"adapter_id":"other-lora"}',
        b'"lora\\u005fpath": "other-lora"',
    ],
)
async def test_an_adapter_beside_the_model(rig: Rig, members: bytes) -> None:
    server, client = await rig.replica(), await rig.client()
    rig.fleet(
        server, name="a", protocol="openai", served_model="org/A", adapters=("sql-lora",), expose="inference"
    )
    body = b'{"model":"a","prompt":"x",' + members + b"}"
    answer = await ask(client, "POST /fleets/a/v1/completions", body)
    assert (answer.status, code_of(answer)) == (403, "model_not_exposed")
    assert "'other-lora'" in answer.body.decode()
    assert not server.requests
    own = body.replace(b"other-lora", b"sql-lora")
    assert (await ask(client, "POST /fleets/a/v1/completions", own)).status == 200


async def test_images_for_a_generic_fleet_pass(rig: Rig) -> None:
    server, client = await shared(rig, "generic"), await rig.client()
    for body in (b"\x89PNG\r\n\x1a\n\x00\x01", b"plain text", b"[1, 2]"):
        answer = await ask(client, "POST /fleets/a/score", body, "Content-Type: application/octet-stream\r\n")
        assert answer.status == 200, body
    answer = await ask(client, "POST /fleets/a/score", b' {"model": "b"}', "Content-Type: image/png\r\n")
    assert (answer.status, code_of(answer)) == (403, "model_not_exposed")
    assert len(server.requests) == 3


async def test_a_call_without_a_model_on_a_shared_host(rig: Rig) -> None:
    """A generic fleet's API need not name any."""
    server = await shared(rig)
    rig.fleet(server, name="c", protocol="generic", expose="inference")
    client = await rig.client()
    for path in ("/v1/completions", "/rerank"):
        refused = await ask(client, f"POST /fleets/a{path}", b'{"prompt": "x"}')
        assert (refused.status, code_of(refused)) == (400, "model_missing")
        assert (await ask(client, f"POST /fleets/c{path}", b'{"prompt": "x"}')).status == 200
    assert len(server.requests) == 2


async def test_a_call_without_a_model_however_its_path_is_written(rig: Rig) -> None:
    server, client = await shared(rig), await rig.client()
    call = "/v1/chat/completions"
    paths = [
        *("/v1/chat/completion%73", f"{call};x=1", f"{call}%3Fx", f"{call}/%00", f"{call}/", f"//{call}"),
        *("/generate", "/generate_stream", "/invocations", "/completion", "/infill", "/embedding"),
        *("/reranking", "/v1/reranking", "/predict", "/apply-template", "/encode", "/v1/anything/else"),
    ]
    for path in paths:
        refused = await ask(client, f"POST /fleets/a{path}", b'{"prompt": "x"}')
        assert (refused.status, code_of(refused)) == (400, "model_missing"), path
    assert not server.requests
    for path in ("/v1/files", "/v1/batches/x/cancel", "/v1/responses/x/cancel"):
        assert (await ask(client, f"POST /fleets/a{path}", b"{}")).status == 200, path
    # It would list the models of others.
    assert (await ask(client, "POST /fleets/a/v2/repository/index", b"{}")).status == 403
    for path in paths:
        answer = await ask(client, f"POST /fleets/a{path}", b'{"model": "a", "prompt": "x"}')
        assert answer.status == 200, path


async def test_a_listed_path_needs_a_model_where_it_is_a_call(rig: Rig) -> None:
    await shared(rig, expose=["/mine", "/generate"])
    client = await rig.client()
    assert (await ask(client, "POST /fleets/a/mine", b"{}")).status == 200
    assert (await ask(client, "POST /fleets/a/generate", b"{}")).status == 400
