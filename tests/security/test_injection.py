"""Line breaks, terminal sequences and their like: nobody makes a header or a line of a log of them."""

import http.client
import json
import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from tests.browser.site import Site
from tests.conftest import RedisServer
from tests.controlplane.conftest import Api, api, operator
from tests.proxy_process import Proxy, Replica, fleet_file, until
from tests.routing.master.conftest import proxy, replicas

__all__ = ["api", "operator", "proxy", "replicas"]

NASTY = {
    "line feed": "a\nb",
    "carriage return": "a\r\nX-Evil: 1",
    "NUL": "a\0b",
    "terminal sequence": "a\x1b[2J\x1b]0;owned\x07b",
    "C1 control": "a\x9bb",
    "line separator": "a\u2028b",
    "paragraph separator": "a\u2029b",
    "right-to-left override": "a\u202eb",
    "next line": "a\x85b",
    "backspace": "a\x08b",
    "lone surrogate": "a\ud800b",
}
ROW = {"name": "r", "url": "http://127.0.0.1:9"}
THRESHOLD = {"metric": "rps", "comparison": "above", "value": 1}
PAGER = {"name": "pager", "kind": "webhook", "url": "http://127.0.0.1:9"}
MAIL = {"name": "mail", "kind": "email"}
FIELDS: dict[str, tuple[str, Callable[[str], dict[str, Any]]]] = {
    "fleet": ("/fleets", lambda text: {"name": text, "protocol": "openai"}),
    "alias": ("/fleets", lambda text: {"name": "f", "protocol": "openai", "aliases": [text]}),
    "adapter": ("/fleets", lambda text: {"name": "f", "protocol": "openai", "adapters": [text]}),
    "served model": ("/fleets", lambda text: {"name": "f", "protocol": "openai", "served_model": text}),
    "label": ("/fleets", lambda text: {"name": "f", "protocol": "openai", "labels": {text: "a"}}),
    "label's value": ("/fleets", lambda text: {"name": "f", "protocol": "openai", "labels": {"team": text}}),
    "exposed path": ("/fleets", lambda text: {"name": "f", "protocol": "openai", "expose": [f"/v1/{text}"]}),
    "exposure": ("/fleets", lambda text: {"name": "f", "protocol": "openai", "expose": text}),
    "replica": ("/fleets/llm/replicas?trial=no", lambda text: {**ROW, "name": text}),
    "URL": ("/fleets/llm/replicas?trial=no", lambda text: {**ROW, "url": f"http://127.0.0.1:9/{text}"}),
    "host": ("/fleets/llm/replicas?trial=no", lambda text: {**ROW, "url": f"http://{text}:9"}),
    "site": ("/fleets/llm/replicas?trial=no", lambda text: {**ROW, "site": text}),
    "credential": ("/fleets/llm/replicas?trial=no", lambda text: {**ROW, "credential": f"file:/{text}"}),
    "probe path": (
        "/fleets",
        lambda text: {"name": "f", "protocol": "generic", "probe": {"preset": "http", "path": f"/{text}"}},
    ),
    "hardware class": ("/hardware-classes", lambda text: {"name": text, "weight": 1}),
    "accelerator": ("/accelerators", lambda text: {"name": text, "memory_gib": 1}),
    "client key": ("/client-keys", lambda text: {"name": text}),
    "alert rule": ("/alerts/rules", lambda text: {**THRESHOLD, "name": text}),
    "destination": ("/alerts/destinations", lambda text: {**PAGER, "name": text}),
    "destination's URL": (
        "/alerts/destinations",
        lambda text: {**PAGER, "url": f"http://127.0.0.1:9/{text}"},
    ),
    "destination's host": ("/alerts/destinations", lambda text: {**PAGER, "url": f"http://{text}:9"}),
    "e-mail address": ("/alerts/destinations", lambda text: {**MAIL, "to": [f"anna{text}@example.com"]}),
    "silence's reason": ("/alerts/silences", lambda text: {"reason": text, "duration_s": 600}),
    "token": ("/tokens", lambda text: {"name": text}),
    "token's role": ("/tokens", lambda text: {"name": "t", "role": text}),
    "token's label": ("/tokens", lambda text: {"name": "t", "labels": {text: "a"}}),
    "token's label's value": ("/tokens", lambda text: {"name": "t", "labels": {"team": text}}),
    "token's expiry": ("/tokens", lambda text: {"name": "t", "expires_at": f"2090-01-01{text}"}),
}


@pytest.mark.usefixtures("fresh_stores", "llm")
@pytest.mark.any_database
@pytest.mark.parametrize("field", FIELDS)
def test_no_field_of_the_api_takes_one(api: Api, field: str) -> None:
    path, body = FIELDS[field]
    accepted = []
    for kind, text in NASTY.items():
        answer = api.post(path, json.dumps(body(text)))
        if answer.status_code != 400:
            accepted.append(f"{kind}: {answer.status_code}")
        assert "X-Evil" not in answer.headers
        assert answer.status_code < 500
    assert accepted == []


@pytest.mark.usefixtures("fresh_stores")
@pytest.mark.any_database
@pytest.mark.parametrize(
    "target",
    ["//evil.example", "https://evil.example/", "/\\evil.example", "javascript:alert(1)", "/%0d%0aX-Evil: 1"],
)
def test_signing_in_leads_nowhere_else(target: str, operator: Any) -> None:
    operator.set_password("violet-otter-9182")
    operator.save()
    form = {"username": operator.username, "password": "violet-otter-9182", "next": target}
    answer = Client().post("/login", form)
    assert answer.status_code == 302
    assert re.fullmatch(r"/[^/\\\r\n]*", answer["Location"])
    assert "X-Evil" not in answer.headers


@pytest.fixture(scope="module")
def web(shared_redis: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    site = Site(tmp_path_factory.mktemp("site"), shared_redis.url)
    site.start()
    yield site
    site.stop()


FIRST_LINES = ("/x%0d%0aX-Evil:%201", "/x%1b[2J", "/x%e2%80%a8y", "/fleets/%0a", "/%00", "/?q=%0d%0aX-Evil:1")
HEADERS = (
    b"User-Agent: \x1b[2Jevil",
    b"User-Agent: \xe2\x80\xa8{}",
    b"X-Request-Id: a\x1b[2J",
    b"X-Request-Id: evil id",
    b"Referer: \x9bevil",
    b"Cookie: sessionid=\x1b[2J",
    b"Authorization: Token \x1b[2J",
    b"Host: evil\x1b[2J",
)


def ask_raw(port: int, first: str, header: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        host = b"" if header.startswith(b"Host") else b"Host: 127.0.0.1\r\n"
        connection.sendall(
            b"GET %b HTTP/1.1\r\n%b%b\r\nConnection: close\r\n\r\n" % (first.encode(), host, header)
        )
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
        return answer


def requests() -> Iterator[tuple[str, bytes]]:
    yield from ((first, b"X: y") for first in FIRST_LINES)
    yield from (("/", header) for header in HEADERS)


def test_nothing_becomes_a_header_or_line_of_the_web_process(web: Site) -> None:
    for first, header in requests():
        head = ask_raw(web.port, first, header).partition(b"\r\n\r\n")[0]
        assert head.startswith(b"HTTP/1.1 "), (first, header)
        assert b"\r\nx-evil" not in head.lower()
        assert clean(head), (first, header, head)
    lines = web.log_file.read_bytes().splitlines()
    assert all(clean(line) for line in lines)
    assert all(isinstance(json.loads(line), dict) for line in lines)


@pytest.mark.parametrize("form", ["json", "text"])
def test_nothing_becomes_a_header_or_line_of_the_proxy(
    proxy: Callable[..., Proxy], replicas: list[Replica], tmp_path: Path, form: str
) -> None:
    log = tmp_path / "access.log"
    file = fleet_file(tmp_path / "fleets.yaml", replicas)
    flags = ("--fleets", str(file), "--workers", "1", "--access-log", str(log), "--log-format", form)
    running = proxy(*flags, "--log-level", "debug").ready()
    for first, header in requests():
        head = ask_raw(running.port, first, header).partition(b"\r\n\r\n")[0]
        assert head.startswith(b"HTTP/1.1 "), (first, header)
        assert b"\r\nx-evil" not in head.lower()
        assert clean(head), (first, header, head)
    connection = http.client.HTTPConnection("127.0.0.1", running.port, timeout=30)
    connection.request("GET", "/last")
    connection.getresponse().read()
    connection.close()
    until(lambda: b"/last" in log.read_bytes(), "the last request is in the log")
    lines = log.read_bytes().splitlines()
    assert all(clean(line) for line in [*lines, *running.log_file.read_bytes().splitlines()])
    if form == "json":
        assert all(isinstance(json.loads(line), dict) for line in lines)


def clean(text: bytes) -> bool:
    """Without control characters, and without characters that some readers of logs take for line ends."""
    said = text.decode("utf-8", "replace")
    return not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029]", said)
