"""``expose``: which paths a fleet's clients reach at its replicas, and how paths are compared."""

import json
import re
from pathlib import Path

import pytest

from routing.contract.client_keys import key_hash, new_key, new_salt, salt_bytes
from tests.routing.proxy.rig import Answer, Client, ReplicaConnection, Rig, Seen, until

PAGE = Path(__file__).parents[4] / "docs" / "proxy.md"

MANAGEMENT = [
    "POST /v2/repository/models/X/unload",
    "POST /v2/repository/models/X/load",
    "POST /shutdown",
    "POST /v1/load_lora_adapter",
    "POST /v1/unload_lora_adapter",
    "GET /metrics",
    "POST /flush_cache",
    "POST /start_profile",
    "POST /update_weights_from_disk",
    "POST /sleep",
    "POST /wake_up",
    "POST /slots/0?action=erase",
    "POST /models?url=x.mar",
    "POST /v2/logging",
]
MORE_MANAGEMENT = [
    *("POST /collective_rpc", "POST /reset_prefix_cache", "POST /release_memory_occupation", "POST /props"),
    *("POST /v2/models/X/trace/setting", "POST /v2/systemsharedmemory/region/a/register", "POST /api/pull"),
    *("DELETE /api/delete", "DELETE /models/X", "PUT /models/X", "POST /v1/models", "DELETE /v1/models/X"),
    *("POST /lora-adapters", "POST /pause_generation", "POST /abort_request", "POST /workers"),
    *("GET /get_server_info", "POST /actuator/shutdown", "GET /-/routes", "POST /scale_elastic_ep"),
]
HIDDEN = [
    *("POST //shutdown", "POST /shutdown/", "POST /%73hutdown", "POST /SHUTDOWN", "POST /shutdown;a=1"),
    *("POST /v2%2Frepository%2Fmodels%2FX%2Funload", "POST /v2/repository/models/X%2Funload"),
    *("POST /v2/repository%5Cmodels/X/load", "POST /v2\\repository/models/X/load", "POST /shutdown%3Fa"),
    *("POST /%2573hutdown", "POST /v1//load_lora_adapter", "POST /v1/%6coad_lora_adapter"),
]
LEAVING = [
    *("/../secret", "/a/../../secret", "/%2e%2e/secret", "/.%2E/secret", "/..%2fsecret", "/a/..;/..;/secret"),
    *("/..%5csecret", "/..\\secret", "/%252e%252e/secret", "/a%2f..%2f..%2fsecret", "/./secret", "/a/.."),
    *("/%2e%2e%2fsecret", "/..;x=1/secret"),
]


async def ask(client: Client, line: str, body: bytes = b"", fields: str = "") -> Answer:
    method, path = line.split(" ")
    head = f"{method} {path} HTTP/1.1\r\nHost: a.test\r\n{fields}"
    if method not in ("POST", "PUT"):
        body = b""
    elif body:
        head += f"Content-Length: {len(body)}\r\n"
    return await client.ask(head.encode() + b"\r\n" + body)


def code_of(answer: Answer) -> str:
    said = json.loads(answer.body)
    return str(said["code"] if "code" in said else said.get("error", said))


@pytest.mark.parametrize("protocol", ["openai", "open-inference", "generic"])
async def test_management_paths_are_refused(rig: Rig, protocol: str) -> None:
    replica = await rig.replica()
    rig.fleet(replica, protocol=protocol, expose="inference")  # type: ignore[arg-type]
    client = await rig.client()
    for line in (*MANAGEMENT, *MORE_MANAGEMENT, *HIDDEN):
        method, path = line.split(" ")
        answer = await ask(client, f"{method} /fleets/f{path}", b"{}")
        assert answer.status in (400, 403), line
        shown = path.partition("?")[0].replace("\\", "\\\\")
        assert shown in answer.body.decode(), line
        if answer.status == 403:
            assert "expose: inference" in answer.body.decode(), line
        assert not replica.requests, line
    count = len(MANAGEMENT) + len(MORE_MANAGEMENT) + len(HIDDEN)
    assert rig.table.fleets["f"].counters.not_exposed == count
    assert rig.table.fleets["f"].counters.requests == 0


async def test_a_key_of_the_fleet_opens_no_more(rig: Rig) -> None:
    replica = await rig.replica()
    rig.fleet(replica, protocol="openai", expose="inference")
    key, salt = new_key(), new_salt()
    rig.keys(salt, {key_hash(salt_bytes(salt), key.encode()): ["f"]})
    client = await rig.client()
    fields = f"Authorization: Bearer {key}\r\n"
    for line in MANAGEMENT:
        assert (await ask(client, line, b"{}", fields)).status == 403, line
    assert (await ask(client, "POST /v1/completions", b"{}", fields)).status == 200
    # Who has no key learns nothing of paths.
    assert (await ask(client, "POST /shutdown", b"{}")).status == 401
    assert (await ask(client, "POST /../shutdown", b"{}")).status == 401


@pytest.mark.parametrize("expose", ["inference", "all", ["/a"], None])
async def test_no_path_leads_out_of_the_prefix(rig: Rig, expose: object) -> None:
    replica = await rig.replica()
    rig.fleet(replica, expose=expose, prefix="/base")  # type: ignore[arg-type]
    client = await rig.client()
    for path in LEAVING:
        for place in (f"/fleets/f{path}", path, f"/fleets/f/a{path}"):
            answer = await ask(client, f"GET {place}")
            assert (answer.status, code_of(answer)) == (400, "ambiguous_path"), place
    assert not replica.requests
    assert (await ask(client, "GET /fleets/f/a/..b/.c?x=../..")).status == 200
    assert replica.requests[-1].line == b"GET /base/a/..b/.c?x=../.. HTTP/1.1"


async def test_all_exposes_everything_and_forwards_it_as_it_came(rig: Rig) -> None:
    replica = await rig.replica()
    rig.fleet(replica, protocol="openai", expose="all")
    client = await rig.client()
    for line in (*MANAGEMENT, *MORE_MANAGEMENT, *HIDDEN):
        method, path = line.split(" ")
        assert (await ask(client, f"{method} /fleets/f{path}", b"{}")).status == 200, line
        assert replica.requests[-1].line.decode() == f"{line} HTTP/1.1"
    assert rig.table.fleets["f"].counters.not_exposed == 0


async def test_a_fleet_from_before_keeps_what_it_reaches_and_counts(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    replica = await rig.replica()
    rig.fleet(replica, protocol="openai")
    client, counters = await rig.client(), rig.table.fleets["f"].counters
    for line in MANAGEMENT:
        method, path = line.split(" ")
        assert (await ask(client, f"{method} /fleets/f{path}", b"{}")).status == 200, line
    assert (counters.would_refuse, counters.not_exposed) == (len(MANAGEMENT), 0)
    await ask(client, "POST /fleets/f/sleep", b"{}")
    assert sum("expose POST /sleep" in record.message for record in caplog.records) == 1
    assert counters.would_refuse == len(MANAGEMENT) + 1
    await ask(client, "POST /fleets/f/v1/completions", b"{}")
    assert counters.would_refuse == len(MANAGEMENT) + 1


async def test_listed_paths_and_what_is_below(rig: Rig) -> None:
    replica = await rig.replica()
    rig.fleet(replica, protocol="openai", expose=["/classify/image", "/v2/repository"])
    client = await rig.client()
    for path in ("/classify/image", "/classify/image/", "/classify/image/x?y=1", "/classify//image"):
        assert (await ask(client, f"POST {path}", b"{}")).status == 200, path
        assert replica.requests[-1].line.decode() == f"POST {path} HTTP/1.1"
    # Whoever lists a management path means it.
    assert (await ask(client, "POST /v2/repository/models/X/load", b"{}")).status == 200
    for path in ("/classify", "/classify/images", "/fleets/f/v1/chat/completions", "/", "/Classify/image"):
        answer = await ask(client, f"POST {path}", b"{}")
        assert (answer.status, "expose lists paths" in answer.body.decode()) == (403, True), path
    answer = await ask(client, "POST /classify%2Fimage", b"{}")
    assert (answer.status, code_of(answer)) == (400, "ambiguous_path")


async def test_a_change_applies_to_the_next_request_of_an_open_connection(rig: Rig) -> None:
    replica = await rig.replica()
    rig.fleet(replica, protocol="openai", expose="inference")
    client = await rig.client()
    for expose, status in (("inference", 403), ("all", 200), (["/sleep"], 200), (["/v1"], 403), (None, 200)):
        rig.fleet(replica, protocol="openai", expose=expose)  # type: ignore[arg-type]
        for _ in range(3):
            assert (await ask(client, "POST /sleep", b"{}")).status == status, expose


def calls_in_docs() -> list[str]:
    """The paths of the tables of calls, with names for what is in capitals."""
    page = PAGE.read_text("utf-8")
    found: list[str] = []
    for heading in (
        "### Health of V2 fleets",
        "### The OpenAI API and related paths",
        "### What clients may reach",
    ):
        section = page.partition(heading + "\n")[2].partition("\n## ")[0].partition("\n### ")[0]
        rows = [row for row in section.splitlines() if row.startswith("| ") and "---" not in row]
        found += [path for row in rows for path in re.findall(r"`(/[^` ]+)`", row.split(" | ")[0])]
    return [path.replace("NAME", "f").replace("{id}", "resp_1") for path in found]


async def test_all_calls_of_the_docs_pass(rig: Rig) -> None:
    replica = await rig.replica()
    rig.fleet(replica, protocol="openai", expose="inference")
    client = await rig.client()
    paths = calls_in_docs()
    assert len(paths) > 20
    assert {"/v1/chat/completions", "/tokenize", "/v1/audio/transcriptions", "/v2/rerank"} <= set(paths)
    for path in paths:
        path = path.removeprefix("/fleets/f")
        body = json.dumps({"model": "f"}).encode()
        reads = path.startswith(("/v2/health", "/v2/models/f/ready", "/v1/models")) or path == "/v2"
        method = "GET" if reads else "POST"
        answer = await ask(client, f"{method} /fleets/f{path}", body)
        assert answer.status == 200, (method, path, answer.body)
        answer = await ask(client, f"OPTIONS /fleets/f{path}")
        assert answer.status == 200, path


ALSO_CALLS = [
    *("GET /v1/models", "GET /v1/models/org%2Ff", "GET /v1/responses/resp_1", "DELETE /v1/responses/resp_1"),
    *("POST /v1/responses/resp_1/cancel", "POST /v1/responses", "POST /v1/audio/speech", "GET /v1/files"),
    *("POST /v1/anything/else", "POST /openai/v1/chat/completions", "GET /health", "GET /version"),
    *("GET /v2", "GET /v2/models/f", "GET /v2/models/f/config", "GET /v2/models/f/versions/2/ready"),
    *(
        "GET /v2/models/f/stats",
        "POST /v2/repository/index",
        "POST /v2/models/f/infer",
        "GET /v2/models/f/ready",
    ),
    *(
        "POST /v2/models/f/versions/1/infer",
        "POST /v2/models/f/generate_stream",
        "POST /v2/models/org%2Ff/infer",
    ),
    *(
        "POST /v1/models/f:predict",
        "POST /generate",
        "POST /v1//chat/completions",
        "OPTIONS /v1/chat/completions",
    ),
]


@pytest.mark.parametrize("protocol", ["openai", "open-inference", "generic"])
async def test_metadata_and_other_calls_pass(rig: Rig, protocol: str) -> None:
    replica = await rig.replica()
    rig.fleet(replica, protocol=protocol, aliases=("org/f",), expose="inference")  # type: ignore[arg-type]
    client = await rig.client()
    for line in ALSO_CALLS:
        method, path = line.split(" ")
        answer = await ask(client, f"{method} /fleets/f{path}", b'{"model": "f"}')
        assert answer.status == 200, (line, answer.body)
    assert rig.table.fleets["f"].counters.not_exposed == 0


async def test_a_generic_fleet_exposes_paths_of_its_own(rig: Rig) -> None:
    replica = await rig.replica()
    rig.fleet(replica, expose="inference")
    client = await rig.client()
    for line in ("POST /", "GET /", "POST /predict", "PUT /a/b", "POST /models/x:predict", "GET /models"):
        assert (await ask(client, line, b"x")).status == 200, line
    rig.fleet(replica, protocol="openai", expose="inference")
    for line in ("POST /", "PUT /a/b", "POST /jobs"):
        assert (await ask(client, line, b"x")).status == 403, line


async def test_web_sockets_pass_by_their_path(rig: Rig) -> None:
    replica = await rig.replica()
    rig.fleet(replica, protocol="openai", expose="inference")
    upgrade = (
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    )

    async def switch(connection: ReplicaConnection, seen: Seen) -> None:
        connection.tunnel = True
        connection.transport.write(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
        )

    replica.script = switch
    client = await rig.client()
    assert (await ask(client, "GET /v1/realtime?model=f", fields=upgrade)).status == 101
    client.abort()
    other = await rig.client()
    assert (await ask(other, "GET /slots", fields=upgrade)).status == 403
    await until(lambda: rig.table.fleets["f"].replicas[0].in_flight == 0)


async def test_sticky_and_health_requests_are_checked_as_well(rig: Rig) -> None:
    replica = await rig.replica()
    rig.fleet(replica, protocol="open-inference", expose=["/v2/models/f/infer"])
    client = await rig.client()
    assert (await ask(client, "GET /v2/health/ready")).status == 200, "the proxy answers for itself"
    assert (await ask(client, "GET /v2/models/f")).status == 403
    rig.fleet(replica, protocol="openai", expose=["/v1/completions"])
    for line in ("POST /v1/responses", "GET /v1/responses/resp_1", "GET /v2/health/ready"):
        answer = await ask(client, f"{line.split(' ')[0]} /fleets/f{line.split(' ')[1]}", b'{"model": "f"}')
        assert answer.status == 403, line
    assert not replica.requests
