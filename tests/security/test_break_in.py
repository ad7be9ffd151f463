"""Break-in attempts by a client with a key of one fleet, at a real proxy whose fleets share a server: no
management path and nothing of the other fleets is reached, however the request is written."""

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from routing.contract.client_keys import new_key
from tests.proxy_process import LIMIT_S, Proxy

KEY, OTHER = new_key(), new_key()
WEB_SOCKET = (
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)
JSON = "Content-Type: application/json\r\n"
FORM = "Content-Type: multipart/form-data; boundary=xx\r\n"
URLENCODED = "Content-Type: application/x-www-form-urlencoded\r\n"
OWN, THEIRS = b'{"model": "a"}', b'{"model": "b"}'
CHAT = "POST /fleets/a/v1/chat/completions"


class Server:
    """Keeps what it gets, and answers each connection's first bytes with 200, or with 101 where it is asked
    to."""

    def __init__(self) -> None:
        self.got: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            connection.settimeout(LIMIT_S)
            data = b""
            try:
                while b"\r\n\r\n" not in data or not _is_whole(data):
                    piece = connection.recv(1 << 16)
                    if not piece:
                        break
                    data += piece
                self.got.append(data)
                if b"upgrade: websocket" in data.lower():
                    connection.sendall(
                        b"HTTP/1.1 101 Switching Protocols\r\n"
                        b"Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
                    )
                else:
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
            except OSError:
                return

    def stop(self) -> None:
        self._listener.close()


def _is_whole(data: bytes) -> bool:
    head, _, body = data.partition(b"\r\n\r\n")
    fields = head.lower().split(b"\r\n")
    if b"transfer-encoding: chunked" in fields:
        return body.endswith(b"0\r\n\r\n")
    lengths = [field.partition(b":")[2] for field in fields if field.startswith(b"content-length:")]
    return len(body) >= int(lengths[0]) if lengths else True


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def proxy(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    folder: Path = tmp_path_factory.mktemp("break-in")
    fleets = [
        {
            "name": name,
            "protocol": "openai",
            "expose": "inference",
            "match": [{"host": f"{name}.test"}],
            "replicas": [{"name": "r", "url": f"http://{host}:{server.port}{prefix}"}],
        }
        for name, host, prefix in (("a", "127.0.0.1", ""), ("b", "localhost", ""), ("o", "[::1]", "/v1/o"))
    ]
    keys = [{"name": name, "key": f"file:{name}.key", "fleets": [name]} for name in ("a", "b")]
    (folder / "a.key").write_text(KEY)
    (folder / "b.key").write_text(OTHER)
    file = folder / "fleets.yaml"
    file.write_text(json.dumps({"version": 1, "fleets": fleets, "client_keys": keys}))
    running = Proxy(folder, "--fleets", str(file), "--workers", "1")
    try:
        yield running.ready()
    finally:
        running.stop()


def request(line: str, body: bytes = b"", fields: str = "", host: str = "x.test") -> bytes:
    """``fields`` may bring their own framing."""
    if body and "Length" not in fields and "Transfer-Encoding" not in fields:
        fields += f"Content-Length: {len(body)}\r\n"
    key = "" if "Authorization" in fields else f"Authorization: Bearer {KEY}\r\n"
    closing = "" if "Connection" in fields else "Connection: close\r\n"
    version = "" if line.endswith(("HTTP/1.0", "HTTP/1.1", "HTTP/2.0")) else " HTTP/1.1"
    hosts = f"Host: {host}\r\n" if host else ""
    return f"{line}{version}\r\n{hosts}{key}{fields}{closing}\r\n".encode("latin-1") + body


def form(*parts: tuple[str, bytes]) -> bytes:
    pieces = [f"--xx\r\n{head}\r\n\r\n".encode() + value + b"\r\n" for head, value in parts]
    return b"".join(pieces) + b"--xx--\r\n"


MODEL = 'Content-Disposition: form-data; name="model"'
FILE = 'Content-Disposition: form-data; name="file"; filename="a.wav"'


def chunked(*pieces: bytes, trailers: bytes = b"") -> bytes:
    whole = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    return whole + b"0\r\n" + trailers + b"\r\n"


TE = "Transfer-Encoding: chunked\r\n"
PATHS = [
    # Plain, in other cases, with what servers drop.
    *("/shutdown", "/SHUTDOWN", "/Shutdown/", "//shutdown", "/shutdown//", "/shutdown;x=1", "/;x/shutdown"),
    *("/shutdown?x=1", "/shutdown%3Fx", "/shutdown%23x", "/shutdown%00", "/shutdown%00/v1/models"),
    *("/v1/load_lora_adapter", "/v1//load_lora_adapter", "/V1/Load_Lora_Adapter", "/v1/load_lora_adapter/"),
    *("/v1/load_lora_adapter;v1/models", "/v1/load_lora_adapter%3B", "/v1;/load_lora_adapter"),
    # Encoded once, twice, three and four times.
    *("/%73hutdown", "/%2573hutdown", "/%252573hutdown", "/%25252573hutdown", "/v1/%6coad_lora_adapter"),
    *("/v1%2Fload_lora_adapter", "/v1%252Fload_lora_adapter", "/v1%5Cload_lora_adapter"),
    *(
        "/v1/lo%00ad_lora_adapter",
        "/v1/%0aload_lora_adapter",
        "/v1/%7fload_lora_adapter",
        "/v1/.%09./shutdown",
    ),
    *("/v1/models/%0db:predict", "/v1/load_lora_adapter%0a", "/v1/models/%2500b"),
    *("/v1\\load_lora_adapter", "/v1/%00/load_lora_adapter", "/v1%2f%2fload_lora_adapter"),
    # Out of what is open.
    *("/v1/chat/../../shutdown", "/v1/%2e%2e/shutdown", "/v1/..;/shutdown", "/v1/..%2fshutdown"),
    *("/v1/.%2e/shutdown", "/v1/%252e%252e/shutdown", "/v1/..\\shutdown", "/v1/..%5cshutdown", "/./shutdown"),
    *("/v1/x/..%00/shutdown", "/v1/models/a/../../../shutdown", "/v1/..%3b/shutdown"),
    # Other names of the same.
    *("/openai/v1/load_lora_adapter", "/api/v1/models/load", "/v1/model/load", "/v1/internal/model/load"),
    *("/v2/repository/models/b/unload", "/v2/repository%2Fmodels/b/unload", "/v2/repository/index/../models"),
    *("/fleets/b/v1/models", "/fleets/a/shutdown", "/metrics", "/slots/0", "/-/routes", "/v1/x/reload"),
    *("/v2/models/b/ready", "/v1/models/b", "/v1/engines/b/completions", "/v1/models/%62:predict"),
    *("/openai/deployments/b/chat/completions", "/v2/models/%2562/infer", "/v2/models/a%2F..%2Fb/infer"),
    *("/V2/Models/b/infer", "/v2/models/a;/../b/infer", "/v2/models/b/versions/1/infer"),
    # Below the path prefix of another fleet.
    *("/v1/o", "/v1/o/sleep", "/v1/o/v1/chat/completions", "/v1/o/v2/models/o/infer", "/v1//%6f/x"),
    *("/v1/o%2Fx", "/v1/o;x/x", "/v1\\o\\x", "/v1/%256f/x", "/V1/O/x"),
]
LINES: dict[str, bytes] = {
    **{
        f"{method} {path}": request(f"{method} /fleets/a{path}", OWN if method == "POST" else b"", JSON)
        for path in PATHS
        for method in ("POST", "GET")
    },
    # Targets in other forms.
    "absolute": request("POST http://a.test/shutdown", OWN, JSON),
    "absolute, another host inside": request(
        "POST http://b.test/v1/chat/completions", THEIRS, JSON, "a.test"
    ),
    "absolute, another host outside": request(
        "POST http://a.test/v1/chat/completions", THEIRS, JSON, "b.test"
    ),
    "absolute with a fleet": request("POST http://x/fleets/b/v1/chat/completions", OWN, JSON),
    "absolute, out of it": request("POST http://a.test/v1/../shutdown", OWN, JSON),
    "absolute, user": request("POST http://a.test@b.test/v1/chat/completions", THEIRS, JSON),
    "authority": request("CONNECT 127.0.0.1:80"),
    "fragment": request("POST /fleets/a/v1/models#/../../shutdown", OWN, JSON),
    "a fleet in a fleet": request("POST /fleets/a/fleets/b/v1/chat/completions", THEIRS, JSON),
    "an encoded fleet": request("POST /fleets/%62/v1/chat/completions", THEIRS, JSON),
    "an encoded slash in a fleet": request("POST /fleets/a%2F..%2Fb/v1/chat/completions", THEIRS, JSON),
    "another fleets folder": request("POST /Fleets/b/v1/chat/completions", THEIRS, JSON),
    "no slash": request("POST shutdown", OWN, JSON),
    "a space": request("POST /fleets/a/v1/models /../shutdown", OWN, JSON),
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    # Who the fleet is.
    "host of b": request("POST /v1/chat/completions", THEIRS, JSON, "b.test"),
    "host of b with a dot": request("POST /v1/chat/completions", THEIRS, JSON, "b.test."),
    "host of b in capitals": request("POST /v1/chat/completions", THEIRS, JSON, "B.TEST:80"),
    "two hosts": request("POST /v1/chat/completions", THEIRS, JSON + "Host: b.test\r\n", "a.test"),
    "field of b": request("POST /v1/chat/completions", THEIRS, JSON + "X-Switchyard-Fleet: b\r\n"),
    "field of a, path of b": request("POST /v2/models/b/infer", b"{}", JSON + "X-Switchyard-Fleet: a\r\n"),
    "field of a, body of b": request("POST /v1/chat/completions", THEIRS, JSON + "X-Switchyard-Fleet: a\r\n"),
    "two fields": request(CHAT, THEIRS, JSON + "X-Switchyard-Fleet: a\r\nX-Switchyard-Fleet: b\r\n"),
    "field of a, management": request("POST /v1/unload_lora_adapter", OWN, "X-Switchyard-Fleet: a\r\n"),
    "body of b alone": request("POST /v1/chat/completions", THEIRS, JSON),
    "X-Original-URL": request("POST /fleets/a/v1/x/../models", OWN, "X-Original-URL: /shutdown\r\n"),
    # Methods in a header.
    "PUT instead": request("PUT /fleets/a/v1/models/a", OWN, JSON),
    "DELETE": request("DELETE /fleets/a/v1/models/a"),
    "PATCH": request("PATCH /fleets/a/v1/models/a", OWN, JSON),
    "own method": request("BREW /fleets/a/shutdown"),
    # Models.
    "in the body": request(CHAT, THEIRS, JSON),
    "in the query": request(f"{CHAT}?model=b", OWN, JSON),
    "in the query, encoded": request(f"{CHAT}?m%6fdel=%62", OWN, JSON),
    "in the query, second": request(f"{CHAT}?model=a&model=b", OWN, JSON),
    "in the query, semicolon": request(f"{CHAT}?x=1;model=b", OWN, JSON),
    "in the query, without a body": request(f"{CHAT}?model=b"),
    "twice": request(CHAT, b'{"model": "a", "model": "b"}', JSON),
    "twice, the other way": request(CHAT, b'{"model": "b", "model": "a"}', JSON),
    "twice, escaped": request(CHAT, rb'{"model": "a", "\u006dodel": "b"}', JSON),
    "twice, in capitals": request(CHAT, b'{"model": "a", "Model": "b"}', JSON),
    "none": request(CHAT, b'{"prompt": ""}', JSON),
    "null": request(CHAT, b'{"model": null}', JSON),
    "a list of models": request(CHAT, b'{"model": ["b"]}', JSON),
    "byte order mark": request(CHAT, b"\xef\xbb\xbf" + THEIRS, JSON),
    "UTF-16": request(CHAT, THEIRS.decode().encode("utf-16"), JSON),
    "UTF-16 without a mark": request(CHAT, THEIRS.decode().encode("utf-16-le"), JSON),
    "UTF-32": request(CHAT, THEIRS.decode().encode("utf-32"), JSON),
    "UTF-7": request(CHAT, b'{"+AG0-odel": "b"}', "Content-Type: application/json; charset=utf-7\r\n"),
    "two objects": request(CHAT, OWN + THEIRS, JSON),
    "two lines": request(CHAT, OWN + b"\n" + THEIRS, "Content-Type: application/x-ndjson\r\n"),
    "no type": request(CHAT, THEIRS),
    "two types": request(CHAT, THEIRS, FORM + JSON),
    "a comment": request(CHAT, b'{"model": "a" /* , */ , "model": "b"}', JSON),
    "two fields of a form": request(CHAT, form((MODEL, b"a"), (MODEL, b"b")), FORM),
    "behind a file": request(CHAT, form((FILE, b"x"), (MODEL, b"b")), FORM),
    "a form in capitals": request(CHAT, form((MODEL.replace("model", "MODEL"), b"b")), FORM),
    "a form of another type": request(CHAT, form((MODEL, b"b")), FORM.replace("form-data", "mixed")),
    "an object, said to be a form": request(CHAT, THEIRS, FORM),
    "urlencoded": request(CHAT, b"model=a&model=b", URLENCODED),
    "urlencoded, an object": request(CHAT, THEIRS, URLENCODED),
    "gzip": request(CHAT, OWN, JSON + "Content-Encoding: gzip\r\n"),
    "a coding of two": request(CHAT, OWN, JSON + "Content-Encoding: identity\r\nContent-Encoding: br\r\n"),
    "Connection: Content-Type": request(CHAT, THEIRS, FORM + "Connection: content-type, close\r\n"),
    "Connection: Content-Length": request(CHAT, THEIRS, JSON + "Connection: content-length, close\r\n"),
    "a large object": request(CHAT, b'{"prompt": "' + b"x" * 200_000 + b'", "model": "b"}', JSON),
    "a GET with a body": request("GET /fleets/a/v1/chat/completions", THEIRS, JSON),
    # Framing.
    "chunked": request(CHAT, chunked(*[b"%c" % byte for byte in THEIRS]), JSON + TE),
    "trailers": request(CHAT, chunked(THEIRS, trailers=b"X-Switchyard-Fleet: a\r\n"), JSON + TE),
    "chunk extension": request(CHAT, b'e;x="\r\n"\r\n' + THEIRS + b"\r\n0\r\n\r\n", JSON + TE),
    "both lengths": request(CHAT, chunked(OWN), JSON + TE + "Content-Length: 5\r\n"),
    "two lengths": request(CHAT, THEIRS, JSON + "Content-Length: 0\r\nContent-Length: 14\r\n"),
    "a length with a sign": request(CHAT, THEIRS, JSON + "Content-Length: +14\r\n"),
    "obsolete chunked": request(CHAT, chunked(THEIRS), JSON + "Transfer-Encoding: xchunked\r\n"),
    "a space before the colon": request(CHAT, THEIRS, "Content-Length : 14\r\n"),
    "a folded field": request(CHAT, THEIRS, "X: y\r\n Content-Length: 0\r\nContent-Length: 14\r\n"),
    "HTTP/1.0": request(f"{CHAT} HTTP/1.0", THEIRS, JSON),
    "Expect": request(CHAT, THEIRS, JSON + "Expect: 100-continue\r\n"),
    # Upgrades.
    "WebSocket to management": request("GET /fleets/a/slots", fields=WEB_SOCKET),
    "WebSocket to another's model": request("GET /fleets/a/v1/realtime?model=b", fields=WEB_SOCKET),
    "WebSocket to another fleet": request("GET /fleets/b/v1/realtime", fields=WEB_SOCKET),
    "WebSocket, out of it": request("GET /fleets/a/v1/realtime/../../shutdown", fields=WEB_SOCKET),
}


def exchange(port: int, data: bytes) -> bytes:
    """Until the proxy closes, or the first whole response to an upgrade has come."""
    with socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S) as connection:
        connection.sendall(data)
        answer = b""
        while piece := connection.recv(1 << 16):
            answer += piece
            if answer.startswith(b"HTTP/1.1 101") or (b"\r\n\r\n" in answer and _is_whole(answer)):
                break
        return answer


@pytest.mark.parametrize("attempt", LINES)
def test_nothing_reaches_the_server(proxy: Proxy, server: Server, attempt: str) -> None:
    before = len(server.got)
    answer = exchange(proxy.port, LINES[attempt])
    assert server.got[before:] == [], answer
    assert answer.split(b" ")[1][:1] in (b"4", b"5"), answer


PASSING = {
    "h2c": "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n",
    "WebSocket or h2c": WEB_SOCKET.replace("websocket", "websocket, h2c"),
    "method override": "X-HTTP-Method-Override: DELETE\r\nX-HTTP-Method: DELETE\r\n"
    "X-Method-Override: DELETE\r\n",
    "other targets": "X-Original-URL: /shutdown\r\nX-Rewrite-URL: /shutdown\r\n",
    "a fleet that the path overrides": "X-Switchyard-Fleet: b\r\nX-Switchyard-Replica: b\r\n",
    "nominated framing": "Connection: content-length, transfer-encoding, host\r\n",
}


@pytest.mark.parametrize("attempt", PASSING)
def test_what_passes_says_nothing_else(proxy: Proxy, server: Server, attempt: str) -> None:
    before = len(server.got)
    answer = exchange(proxy.port, request("GET /fleets/a/v1/models/a", fields=PASSING[attempt]))
    assert answer.startswith(b"HTTP/1.1 200"), answer
    (got,) = server.got[before:]
    assert got.startswith(b"GET /v1/models/a HTTP/1.1\r\nHost: 127.0.0.1:")
    for word in (
        b"upgrade",
        b"h2c",
        b"http2-settings",
        b"delete",
        b"shutdown",
        b"switchyard-fleet",
        KEY.encode(),
    ):
        assert word not in got.lower(), got


def test_the_second_request_of_a_connection_is_judged_too(proxy: Proxy, server: Server) -> None:
    """Also one that is hidden behind the first one's end."""
    before = len(server.got)
    hidden = request("POST /fleets/a/shutdown", OWN, JSON)
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=LIMIT_S) as connection:
        connection.sendall(request(CHAT, OWN, JSON + "Connection: keep-alive\r\n") + hidden)
        answer = b""
        while piece := connection.recv(1 << 16):
            answer += piece
    assert [line[:9] for line in answer.split(b"HTTP/1.1 ")[1:]] == [b"200 OK\r\nC", b"403 Forbi"]
    assert [got.split(b" ")[1] for got in server.got[before:]] == [b"/v1/chat/completions"]


def test_enough_is_tried() -> None:
    assert len(LINES) + len(PASSING) > 150
