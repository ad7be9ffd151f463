"""Whose X-Forwarded-For and X-Forwarded-Proto are believed, in the web process as it is started."""

import http.client
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings
from django.test import override_settings

from controlplane.config import environment, system_checks
from controlplane.services import guess_limits
from controlplane.web.forwarded_headers import ForwardedHeaders
from routing.contract.trusted_proxies import TrustedProxies
from tests.browser.site import ADMIN, Site
from tests.conftest import RedisServer


def seen(trusted: str, peer: str | None, **headers: str) -> dict[str, Any]:
    """The scope behind the middleware."""
    found: list[dict[str, Any]] = []

    async def app(scope: dict[str, Any], receive: object, send: object) -> None:
        found.append(scope)

    given = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {
        "type": "http",
        "scheme": "http",
        "client": None if peer is None else (peer, 1234),
        "headers": [(b"host", b"fleet.example.com"), *given],
    }
    middleware = ForwardedHeaders(app, TrustedProxies(trusted.split(",") if trusted else ()))
    with pytest.raises(StopIteration):
        middleware(scope, None, None).send(None)  # type: ignore[arg-type]
    return found[0]


SAID = {"x_forwarded_for": "203.0.113.9, 198.51.100.7", "x_forwarded_proto": "https"}


def test_nobody_is_believed_by_default() -> None:
    scope = seen("", "127.0.0.1", **SAID)
    assert (scope["client"], scope["scheme"]) == (("127.0.0.1", 1234), "http")
    assert [name for name, _ in scope["headers"]] == [b"host"]


@pytest.mark.parametrize(("trusted", "peer"), [("127.0.0.0/8", "127.0.0.1"), ("unix", None)])
def test_a_trusted_proxy_says_who_asks_and_how(trusted: str, peer: str | None) -> None:
    scope = seen(trusted, peer, **SAID, x_forwarded_host="evil.example.com", x_real_ip="1.2.3.4")
    assert (scope["client"], scope["scheme"]) == (("198.51.100.7", 0), "https")
    assert scope["headers"] == [(b"host", b"fleet.example.com")]


def test_a_unix_socket_is_trusted_only_where_that_is_said() -> None:
    assert seen("127.0.0.1", None, **SAID)["client"] is None


def test_the_setting_names_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "declare", lambda *_: None)
    monkeypatch.setenv("SWITCHYARD_TRUSTED_PROXIES", "nginx.example.com")
    with pytest.raises(environment.ImproperlyConfigured, match=r"SWITCHYARD_TRUSTED_PROXIES.*no network"):
        environment.trusted_proxies("SWITCHYARD_TRUSTED_PROXIES", about=environment.SettingDoc("", ""))


def test_origins_are_those_of_the_allowed_hosts() -> None:
    hosts = ["fleet.example.com", ".example.org", "*"]
    expected = ["https://fleet.example.com", "https://example.org", "https://*.example.org"]
    assert environment.https_origins(hosts) == expected


def test_tls_without_a_named_proxy_is_warned_of() -> None:
    with override_settings(TLS=True, TRUSTED_PROXIES=()):
        (warning,) = system_checks.reverse_proxy_is_named(None)
        assert warning.id == "switchyard.W004"
        assert "SWITCHYARD_TRUSTED_PROXIES" in str(warning.hint)
    with override_settings(TLS=True, TRUSTED_PROXIES=("127.0.0.1/32",)):
        assert system_checks.reverse_proxy_is_named(None) == []
    assert settings.TRUSTED_PROXIES == ()


@pytest.fixture(scope="module")
def site(shared_redis: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    site = Site(tmp_path_factory.mktemp("site"), shared_redis.url)
    site.environment["DJANGO_SETTINGS_MODULE"] = "tests.controlplane.web.quick_hashes"
    yield site
    site.stop()


def login(site: Site, name: str, password: str, forwarded_for: str) -> int:
    """As a script would: with a CSRF cookie of its own."""
    token = "a" * 32
    connection = http.client.HTTPConnection("127.0.0.1", site.port, timeout=20)
    headers = {
        "Content-Type": "application/x-www-form-urlencoded",
        "Cookie": f"csrftoken={token}",
        "X-Forwarded-For": forwarded_for,
        "X-Forwarded-Proto": "https",
    }
    body = f"csrfmiddlewaretoken={token}&username={name}&password={password}"
    try:
        connection.request("POST", "/login", body, {**headers, "Referer": f"https://127.0.0.1:{site.port}/"})
        response = connection.getresponse()
        response.read()
        return response.status
    finally:
        connection.close()


def client_of_the_last_login(site: Site) -> str:
    lines = [json.loads(line) for line in site.log_file.read_text().splitlines() if "POST /login" in line]
    return str(lines[-1]["client"])


def test_a_rotating_header_evades_nothing(site: Site) -> None:
    site.start()
    statuses = [login(site, ADMIN[0], "wrong", f"198.51.100.{each}") for each in range(12)]
    assert statuses == [200] * 10 + [429] * 2
    assert client_of_the_last_login(site) == "127.0.0.1"
    # Many names from there, with as many addresses written into the header: the address has a limit.
    sprayed = [login(site, f"name{each}", "wrong", f"203.0.113.{each}") for each in range(25)]
    assert 429 in sprayed[19:]
    site.stop()


def test_behind_a_trusted_proxy_each_client_has_its_own_limit(site: Site) -> None:
    site.environment["SWITCHYARD_TRUSTED_PROXIES"] = "127.0.0.1"
    site.start()
    sprayed = [login(site, f"other{each}", "wrong", f"203.0.113.{each}") for each in range(32)]
    assert sprayed == [200] * 32
    assert client_of_the_last_login(site) == "203.0.113.31"
    # What a client writes itself stands left of what the proxy adds.
    allowed, every_s = guess_limits.PER_ADDRESS
    evading, began = [200], time.monotonic()
    while evading[-1] == 200 and len(evading) <= 100:
        number = len(evading)
        evading.append(login(site, f"more{number}", "wrong", f"192.0.2.{number}, 203.0.113.99"))
    assert evading.pop() == 429
    came_back = (time.monotonic() - began) / every_s
    assert allowed <= len(evading) - 1 <= allowed + came_back + 1
    site.stop()
