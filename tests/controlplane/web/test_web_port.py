"""The web process as it is started: what strangers send is not stored, nor waited for."""

import http.client
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.supervision.programs import WEB_OPTIONS
from tests.browser.site import Site
from tests.conftest import RedisServer
from tests.deploy.services import UNITS, unit_settings


@pytest.fixture(scope="module")
def web(shared_redis: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    site = Site(tmp_path_factory.mktemp("site"), shared_redis.url)
    site.start()
    yield site
    site.stop()


def post(site: Site, path: str, length: int, body: bytes = b"", **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=20)
    connection.putrequest("POST", path)
    given = {"Content-Length": str(length), "Content-Type": "application/json", **headers}
    for name, value in given.items():
        connection.putheader(name, value)
    connection.endheaders(body)
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return response.status, text


def test_a_large_body_to_the_login_is_refused_at_once(web: Site) -> None:
    assert post(web, "/login", 1 << 30)[0] == 413


def test_a_large_body_to_the_api_needs_a_valid_token(web: Site) -> None:
    body = json.dumps({"name": "x" * 100_000}).encode()
    for headers in ({}, {"Authorization": "Token sy_unknown"}, {"Cookie": "sessionid=unknown"}):
        status, text = post(web, "/api/v1/fleets", len(body), body, **headers)
        assert (status, json.loads(text)["status"]) == (413, 413)
    status, text = post(web, "/api/v1/fleets", len(body), body, Authorization=f"Token {web.token}")
    assert status == 400, text
    assert post(web, "/api/v1/fleets", 4 * 1024 * 1024 + 1, Authorization=f"Token {web.token}")[0] == 413


def test_guesses_of_tokens_are_limited_with_a_large_body_too(web: Site) -> None:
    statuses: list[int] = []
    while len(statuses) < 100 and 429 not in statuses:
        status, text = post(web, "/api/v1/fleets", 100_000, Authorization=f"Token sy_{len(statuses)}")
        statuses.append(status)
    assert len(statuses) > 20
    assert statuses == [413] * (len(statuses) - 1) + [429]
    assert "Too many unknown API tokens. Wait" in json.loads(text)["detail"]
    assert post(web, "/api/v1/fleets", 2, b"{}", Authorization=f"Token {web.token}")[0] == 400


def test_every_way_to_start_it_has_the_limits(web: Site) -> None:
    unit = unit_settings(Path(UNITS / "switchyard-web.service"))["ExecStart"][0]
    assert " ".join(WEB_OPTIONS) in unit
