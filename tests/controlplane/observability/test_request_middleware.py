"""Each request of the web process: its id, its access line, its place in the metrics."""

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families

from controlplane.observability import metrics
from controlplane.services import tokens
from routing.contract.log_format import REQUEST_ID, JsonLineFormatter, TextLineFormatter

pytestmark = pytest.mark.usefixtures("stored")


class Heard(logging.Handler):
    """Lines as they would be written, with the id that was in force then."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(JsonLineFormatter("web"))
        self.lines: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(json.loads(self.format(record)))


@pytest.fixture
def heard() -> Iterator[Heard]:
    handler, root = Heard(), logging.getLogger()
    root.addHandler(handler)
    yield handler
    root.removeHandler(handler)


def access(heard: Heard) -> list[dict[str, Any]]:
    return [line for line in heard.lines if line["logger"] == "switchyard.access"]


def test_the_clients_id_is_kept_where_it_can_be() -> None:
    client = Client()
    assert client.get("/livez", headers={"x-request-id": "build-7.a"})["X-Request-Id"] == "build-7.a"
    for bad in ("", "with space", "a" * 129, "new\nline", "ümlaut"):
        made = client.get("/livez", headers={"x-request-id": bad})["X-Request-Id"]
        assert made != bad
        assert len(made) == 24
    assert client.get("/livez")["X-Request-Id"] != client.get("/livez")["X-Request-Id"]


def test_an_access_line_holds_the_route_and_no_secret(heard: Heard) -> None:
    token = tokens.create(User.objects.create_user("anna", is_staff=True), "tests", "tests")[1]
    path = "/api/v1/fleets/some-fleet-nobody-has?secret=1"
    answer = Client().get(path, headers={"authorization": f"Token {token}", "x-request-id": "r1"})
    (line,) = access(heard)
    assert line["request_id"] == answer["X-Request-Id"] == "r1"
    assert (line["method"], line["route"], line["status"]) == ("GET", "/api/v1/fleets/<str:fleet>", 400)
    assert line["user"].startswith("token sy_")
    assert line["client"] == "127.0.0.1"
    assert line["ms"] > 0
    said = json.dumps(line)
    assert token not in said
    assert "secret" not in said
    assert "some-fleet" not in said


def test_who_is_signed_in_is_named(heard: Heard) -> None:
    user = User.objects.create_user("rolf")
    client = Client()
    client.force_login(user)
    client.get("/")
    client.get("/livez")
    page, probe = access(heard)
    assert page["user"] == "rolf"
    assert probe["user"] == ""  # nobody asked, so the session was not read for the log's sake


def test_each_line_of_a_request_has_its_id(heard: Heard, redis_server: Any) -> None:
    token = tokens.create(User.objects.create_user("anna", is_staff=True), "tests", "tests")[1]
    redis_server.stop()
    body = {"name": "llm", "protocol": "openai"}
    headers = {"authorization": f"Token {token}", "x-request-id": "w1"}
    answer = Client().post("/api/v1/fleets", body, content_type="application/json", headers=headers)
    assert answer.status_code == 201
    away = [line for line in heard.lines if "Redis does not answer" in line["message"]]
    assert away
    assert {line["request_id"] for line in away} == {"w1"}
    assert REQUEST_ID.get() == ""


def labels(family: str) -> set[tuple[tuple[str, str], ...]]:
    text = metrics.exposition(metrics.registry("web")).decode()
    (found,) = [each for each in text_string_to_metric_families(text) if each.name == family]
    return {tuple(sorted(sample.labels.items())) for sample in found.samples}


def test_made_up_paths_methods_and_hosts_make_no_labels() -> None:
    client = Client()
    client.get("/nowhere")
    client.get("/livez")
    client.generic("BREW", "/livez")
    before = labels("switchyard_web_requests"), labels("switchyard_web_request_duration_seconds")
    for number in range(30):
        client.get(f"/made/up/{number}")
        client.generic(f"BREW{number}", "/livez")
        client.get("/livez", headers={"host": f"host-{number}.example"})
        client.get(f"/livez?x={number}", headers={"x-request-id": f"id-{number}"})
    after = labels("switchyard_web_requests"), labels("switchyard_web_request_duration_seconds")
    assert after[1] == before[1]
    new = after[0] - before[0]
    assert all(dict(each)["route"] in ("/livez", "(none)") for each in new)
    assert len(new) <= 3  # e.g. a 4xx of a known route


def test_text_lines_for_a_terminal() -> None:
    record = logging.LogRecord("some.logger", logging.WARNING, "", 0, "it is %s", ("late",), None)
    record.fields = {"by_s": 3}
    token = REQUEST_ID.set("r9")
    try:
        text = TextLineFormatter("web").format(record)
    finally:
        REQUEST_ID.reset(token)
    assert text.endswith("Z WARNING web some.logger: it is late by_s=3 (request r9)")
