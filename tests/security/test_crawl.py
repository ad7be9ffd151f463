"""A stranger goes through every address of every port of running processes."""

import ast
import asyncio
import http.client
import inspect
import re
from collections.abc import Callable, Iterator
from types import ModuleType

import pytest
import redis
import websockets

from controlplane.observability import metrics_listener
from routing.contract.client_keys import ALL_FLEETS, key_hash, new_key, new_salt, salt_bytes
from routing.master.admin import admin_server
from tests.browser.site import Site
from tests.conftest import RedisServer
from tests.needs import own_address
from tests.proxy_process import Proxy, Publisher, Replica, free_port, snapshot, until
from tests.routing.master.conftest import proxy, publisher, replicas
from tests.security import routes
from tests.security.access_matrix import (
    ADMIN,
    ADMINISTER,
    METRICS,
    NOT_THERE,
    OPEN,
    PROXY,
    WEB,
    WEBSOCKETS,
    Methods,
)

__all__ = ["proxy", "publisher", "replicas"]

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")
FLEET = "a-fleet-that-strangers-know-nothing-of"
TOKEN = "a-long-random-word"


def ask(port: int, method: str, path: str, host: str = "127.0.0.1", **headers: str) -> tuple[int, str, str]:
    """Status, head and body."""
    connection = http.client.HTTPConnection(host, port, timeout=30)
    try:
        connection.request(method, path, headers=headers)
        response = connection.getresponse()
        return response.status, str(response.headers), response.read().decode("latin-1")
    finally:
        connection.close()


@pytest.fixture(scope="module")
def web(shared_redis: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    site = Site(tmp_path_factory.mktemp("site"), shared_redis.url)
    site.metrics_port = free_port()  # type: ignore[attr-defined]
    site.environment |= {
        "SWITCHYARD_METRICS_LISTEN": f"127.0.0.1:{site.metrics_port}",  # type: ignore[attr-defined]
        "SWITCHYARD_METRICS_TOKEN": TOKEN,
    }
    site.start()
    site.api("POST", "/fleets", {"name": FLEET, "protocol": "openai"})
    yield site
    site.stop()


@pytest.mark.parametrize("route", WEB)
def test_a_stranger_at_the_web_port(web: Site, route: str, redis_client: "redis.Redis") -> None:
    """``redis_client`` forgets how much the stranger has asked: else the rest would be 429."""
    path = re.sub("llm", FLEET, routes.path(route))
    for method in METHODS:
        status, head, body = ask(web.port, method, path)
        wanted = WEB[route].get("GET" if method == "HEAD" else method)
        # 403: a form without its CSRF token.
        refused = status in (401, 403, 405) or (status == 302 and "/login?" in head)
        if wanted == OPEN:
            assert status in ((403,) if method == "POST" else (200, 302)), (method, path, status)
        else:
            assert refused or (method == "OPTIONS" and status == 200), (method, path, status)
        said = (head + body).replace(f"next=/fleets/{FLEET}", "").replace(path, "")
        assert FLEET not in said, (method, path)
        assert "no-store" in head, (method, path)


@pytest.mark.parametrize("path", NOT_THERE)
def test_a_stranger_finds_nothing_else(web: Site, path: str) -> None:
    for headers in ({}, {"Authorization": f"Token {web.token}"}):
        for method in ("GET", "POST"):
            status, _, body = ask(web.port, method, path, **headers)
            assert 400 <= status < 500, (method, path, status)
            assert FLEET not in body
            assert "Traceback" not in body


@pytest.mark.parametrize("path", WEBSOCKETS)
@pytest.mark.parametrize("origin", ["", None, "https://evil.example", "null", "{url}.evil.example"])
async def test_a_stranger_opens_no_websocket(web: Site, path: str, origin: str | None) -> None:
    """From a page of our own it is told to sign in (4401), from anywhere else nothing at all."""
    named = routes.path(path).replace("llm", FLEET)
    given = web.url if origin == "" else origin and origin.replace("{url}", web.url)
    opening = websockets.connect(
        f"ws://127.0.0.1:{web.port}/{named}", origin=given, open_timeout=30, compression=None
    )
    if origin == "":
        async with opening as socket:
            with pytest.raises(websockets.ConnectionClosed) as closed:
                await asyncio.wait_for(socket.recv(), 30)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 4401
        return
    with pytest.raises(websockets.InvalidStatus) as refused:
        async with opening:
            pass
    assert refused.value.response.status_code == 403


@pytest.mark.parametrize(
    ("path", "origin"),
    [
        ("ws/nope", None),
        ("", None),
        ("ws/nope", "{url}"),
        ("ws/overview", "http://["),
        ("ws/nope", "http://["),
        ("ws/overview", "http://a:99999"),
    ],
)
async def test_an_odd_handshake_is_refused(web: Site, path: str, origin: str | None) -> None:
    """It raised in the web process before anybody had signed in."""
    given = origin and origin.replace("{url}", web.url)
    with pytest.raises(websockets.InvalidStatus) as refused:
        async with websockets.connect(f"ws://127.0.0.1:{web.port}/{path}", origin=given, open_timeout=30):
            pass
    assert refused.value.response.status_code == 403


def test_the_matrix_has_every_address_of_the_inner_listeners() -> None:
    assert literals(admin_server) == {path for path in ADMIN if "{" not in path}
    drain = admin_server._DRAIN.pattern.replace("([^/]+)", "{}")
    assert drain == "/fleets/{}/replicas/{}/(drain|undrain)"
    assert literals(metrics_listener) == set(METRICS)


def literals(module: ModuleType) -> set[str]:
    """Each text in the module's source that is an address."""
    tree = ast.parse(inspect.getsource(module))
    said = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    return {text for text in said if isinstance(text, str) and re.fullmatch(r"/[a-z]+", text)}


def test_a_stranger_at_the_metrics_listener(web: Site) -> None:
    port: int = web.metrics_port  # type: ignore[attr-defined]
    for path, methods in METRICS.items():
        for method in METHODS:
            status = ask(port, method, path)[0]
            if method not in methods:
                assert status == 501, (method, path)
            elif methods[method] == OPEN:
                assert status == 200, (method, path)
            else:
                assert status == 401, (method, path)
                assert ask(port, method, path, Authorization=f"Bearer {TOKEN}")[0] == 200
            assert ask(port, "GET", path, Origin="https://evil.example")[0] == 403
            assert ask(port, "GET", path, Host="evil.example")[0] == 403


@pytest.fixture
def guarded(
    proxy: Callable[..., Proxy], publisher: Publisher, replicas: list[Replica], redis_url: str
) -> Proxy:
    """A proxy with a client key, whose admin listener other machines can reach."""
    salt = new_salt()
    hashes = {key_hash(salt_bytes(salt), new_key().encode()): [ALL_FLEETS]}
    publisher.fleet(snapshot(1, replicas))
    publisher.manifest(1, key_salt=salt, key_hashes=hashes)
    running = proxy("--redis", redis_url, "--workers", "1", "--admin", "0.0.0.0:0")
    until(lambda: ask(running.port, "GET", "/")[0] == 401, "it has the table")
    return running


def test_a_stranger_at_the_proxy(guarded: Proxy, replicas: list[Replica]) -> None:
    for path in PROXY:
        for method in METHODS:
            for key in ({}, {"Authorization": f"Bearer {new_key()}"}, {"x-api-key": "sy-"}):
                status, _, body = ask(guarded.port, method, path, **key)
                # Unknown keys beyond a limit are not looked at any more.
                refused = (401, 429) if key else (401,)
                assert status in ((405,) if method == "TRACE" else refused), (method, path, status)
                assert "127.0.0.1" not in body, (method, path)
    assert [one.served for one in replicas] == [0, 0]


def test_another_machine_at_the_admin_listener(guarded: Proxy) -> None:
    """It may look, where it can connect at all; changes are for those on the host."""
    here = own_address()
    found = until(lambda: re.search(r"admin listener on 0\.0\.0\.0:(\d+)", guarded.log), "it listens")
    port = int(found[1])
    for path, methods in ADMIN.items():
        target = path.replace("{fleet}", "echo").replace("{replica}", "a")
        for method in METHODS:
            status, _, body = ask(port, method, target, host=here)
            if methods.get(method) == OPEN:
                assert status in (200, 503), (method, path)
            elif methods.get(method) == ADMINISTER:
                assert (status, "this machine only" in body) == (403, True), (method, path)
            else:
                assert status in (404, 405), (method, path)
            assert ask(port, method, target, host=here, Origin="https://evil.example")[0] == 403
    assert ask(port, "GET", "/status")[2].count('"emergency_drains": []') == 1


def test_methods_are_words_that_the_ports_know() -> None:
    declared: list[Methods] = [*WEB.values(), *ADMIN.values(), *METRICS.values()]
    assert {method for methods in declared for method in methods} <= set(METHODS)
