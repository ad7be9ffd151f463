"""Every service of docker-compose.yml runs from its own command line, on a real PostgreSQL and Redis."""

import http.client
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.conftest import RedisServer
from tests.deploy.conftest import Image
from tests.deploy.redis_users import CONTROL_PLANE as AS_CONTROL_PLANE
from tests.deploy.redis_users import PASSWORDS, url, with_users
from tests.deploy.redis_users import PROXY as AS_PROXY
from tests.deploy.services import Adapter, Running, compose_services
from tests.postgres import PostgresServer
from tests.proxy_process import Replica, until

pytestmark = [pytest.mark.long, pytest.mark.system, pytest.mark.timeout(240)]

SECRETS = {
    "SWITCHYARD_SECRET_KEY": "0123456789abcdef" * 4,
    "POSTGRES_PASSWORD": "unused-on-a-socket",
    **PASSWORDS,
}
TOKEN = "a-long-random-word"
CONTROL_PLANE = ("web", "worker", "beat", "conductor")
PROXIES = ("proxy-1", "proxy-2")


class Installation:
    """All services, started in the order that the file gives."""

    def __init__(self, folder: Path, image: Image, postgres: PostgresServer, server: RedisServer) -> None:
        self.folder = folder
        self.image = image
        database = postgres.create_database("compose")
        self.adapter = Adapter(
            folder,
            {
                f"postgresql://switchyard:{SECRETS['POSTGRES_PASSWORD']}@postgres:5432/switchyard": database,
                f"redis://{AS_CONTROL_PLANE}@redis:6379/0": url(server, AS_CONTROL_PLANE),
                f"redis://{AS_PROXY}@redis:6379/0": url(server, AS_PROXY),
                "/var/lib/switchyard": str(image.data),
            },
        )
        self.described = compose_services({**SECRETS, "SWITCHYARD_METRICS_TOKEN": TOKEN})
        self.running: dict[str, Running] = {}

    def start(self, name: str) -> Running:
        service = self.adapter.compose(name, self.described[name])
        service.environment["SWITCHYARD_DATA_DIR"] = str(self.image.data)  # the image's ENV
        self.running[name] = Running(service, self.image.root, self.folder)
        return self.running[name]

    def manage(self, *arguments: str) -> str:
        command = [sys.executable, "manage.py", *arguments]
        environment = self.running["prepare"].environment
        done = subprocess.run(command, cwd=self.image.root, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def stop_all(self) -> None:
        for running in self.running.values():
            running.kill()


@pytest.fixture(scope="module")
def redis_with_users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    server = with_users(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def installation(
    tmp_path_factory: pytest.TempPathFactory,
    built_image: Image,
    postgres_server: PostgresServer,
    redis_with_users: RedisServer,
) -> Iterator[Installation]:
    made = Installation(tmp_path_factory.mktemp("compose"), built_image, postgres_server, redis_with_users)
    yield made
    made.stop_all()


def test_the_migration_step_ends_and_prints_the_password(installation: Installation) -> None:
    prepare = installation.start("prepare")
    assert prepare.process.wait(60) == 0, prepare.said
    assert re.search(r"One-time password: \S{16,}", prepare.said)


@pytest.mark.parametrize("name", [*CONTROL_PLANE, *PROXIES])
def test_each_service_starts(installation: Installation, name: str) -> None:
    """Without waiting: the next test asks for their health."""
    installation.start(name)


@pytest.mark.parametrize("name", [*CONTROL_PLANE, *PROXIES])
def test_its_health_check_passes(installation: Installation, name: str) -> None:
    running = installation.running[name]
    until(running.is_well, f"{name} is well:\n{running.said}", 60)


@pytest.mark.parametrize("name", [*CONTROL_PLANE, *PROXIES])
def test_prometheus_reads_its_metrics_and_strangers_do_not(installation: Installation, name: str) -> None:
    """The proxy's admin listener has no token: docs/proxy.md says who may reach it."""
    port = installation.adapter.port(name, "8081" if name in PROXIES else "9464")
    status, said = exchange(port, "GET", "/metrics", None, {"Authorization": f"Bearer {TOKEN}"})
    assert (status, "process_start_time_seconds" in said) == (200, True)
    stranger, _ = exchange(port, "GET", "/metrics", None, {})
    assert stranger == (200 if name in PROXIES else 401)


def test_a_request_goes_through_both_proxies_with_a_client_key(installation: Installation) -> None:
    replica = Replica("model")
    try:
        page, _ = exchange(installation.adapter.port("web", "8000"), "GET", "/login", None, {})
        assert page == 200
        web = installation.adapter.port("web", "8000")
        token = installation.manage("createtoken", "admin", "tests")

        def api(method: str, path: str, body: object = None) -> Any:
            return exchange(web, method, f"/api/v1{path}", body, {"Authorization": f"Token {token}"})

        rows = [{"name": "a", "url": replica.url}]
        status, said = api("POST", "/fleets", {"name": "echo", "protocol": "generic", "replicas": rows})
        assert status == 201, said
        status, key = api("POST", "/client-keys", {"name": "tests"})
        assert status == 201, key
        for name in PROXIES:
            port = installation.adapter.port(name, "8080")
            with_key = {"Authorization": f"Bearer {key['key']}"}
            until(partial(answers, port, 200, with_key), f"{name} sends a request to the replica")
            until(partial(answers, port, 401, {}), f"{name} wants a key")
    finally:
        replica.stop()


def answers(port: int, status: int, headers: dict[str, str]) -> bool:
    return exchange(port, "GET", "/fleets/echo/x", None, headers)[0] == status


def exchange(port: int, method: str, path: str, body: object, headers: dict[str, str]) -> tuple[int, Any]:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        content = None if body is None else json.dumps(body)
        connection.request(method, path, content, {"Content-Type": "application/json", **headers})
        response = connection.getresponse()
        said = response.read()
        try:
            return response.status, json.loads(said)
        except ValueError:
            return response.status, said.decode()


def test_redis_has_refused_none_of_them(redis_with_users: RedisServer) -> None:
    """Its log of refusals (ACL LOG), after all that the tests before have had them do."""
    with redis.Redis.from_url(redis_with_users.url) as client:
        assert client.acl_log() == []


@pytest.mark.parametrize("name", [*PROXIES, *CONTROL_PLANE])
def test_it_ends_when_it_is_told_to_within_its_grace(installation: Installation, name: str) -> None:
    running = installation.running[name]
    assert running.stop() in (0, -15, 143), running.said
