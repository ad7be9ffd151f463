"""Users of Redis: each plane works with its own, and can do nothing else."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from routing.contract import redis_keys
from tests.conftest import RedisServer
from tests.deploy.redis_users import CONTROL_PLANE, PASSWORDS, PROXY, made_users, url, with_users
from tests.proxy_process import Proxy, Publisher, Replica, snapshot, until

pytestmark = pytest.mark.any_database

MANAGING = (
    ["FLUSHALL"],
    ["FLUSHDB"],
    ["KEYS", "*"],
    ["CONFIG", "GET", "*"],
    ["CONFIG", "SET", "dir", "/tmp"],
    ["ACL", "LIST"],
    ["ACL", "SETUSER", "more", "on", "nopass", "+@all"],
    ["CLIENT", "LIST"],
    ["CLIENT", "KILL", "TYPE", "normal"],
    ["CLIENT", "PAUSE", "1"],
    ["DEBUG", "SLEEP", "0"],
    ["MODULE", "LIST"],
    ["MODULE", "LOAD", "/tmp/x.so"],
    ["REPLICAOF", "127.0.0.1", "1"],
    ["MIGRATE", "127.0.0.1", "1", "sy:manifest", "0", "10"],
    ["RESTORE", "sy:x", "0", "x"],
    ["SAVE"],
    ["SHUTDOWN", "NOSAVE"],
    ["SWAPDB", "0", "1"],
    ["MONITOR"],
    ["SLOWLOG", "GET"],
    ["SCRIPT", "FLUSH"],
    ["FUNCTION", "LOAD", "#!lua name=x\nredis.register_function('f', function() end)"],
    ["GET", "another:application"],
    ["SET", "another:application", "1"],
    ["EVAL", "return redis.call('SET', 'another:application', '1')", "0"],
    ["PUBLISH", "another", "1"],
    ["SUBSCRIBE", "another"],
)
OF_THE_CONTROL_PLANE = (
    ["HSET", redis_keys.MANIFEST, "body", "{}"],
    ["DEL", redis_keys.MANIFEST],
    ["HSET", redis_keys.fleet_key("echo"), "body", "{}"],
    ["DEL", redis_keys.fleet_key("echo")],
    ["EXPIRE", redis_keys.fleet_key("echo"), "1"],
    ["EVAL", f"return redis.call('DEL', '{redis_keys.MANIFEST}')", "0"],
    ["HSET", redis_keys.LOADS, "uid", "1 {}"],
    ["HSET", redis_keys.INSTALLATION, "id", "x"],
    ["HGETALL", redis_keys.INSTALLATION],
    ["PUBLISH", redis_keys.CHANGES_CHANNEL, "*"],
    ["SUBSCRIBE", "sy__group__overview"],
    ["PSUBSCRIBE", "*"],
    ["GET", "sy:live:overview"],
    ["GET", "sy:throttle:1"],
    ["ZADD", "sy:probe:due", "0", "uid"],
    ["SCAN", "0"],
    ["RPUSH", "celery", "{}"],
    ["LRANGE", "celery", "0", "-1"],
    ["HGETALL", "unacked"],
    ["INFO"],
)
"""What a proxy never does."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    made = with_users(tmp_path_factory.mktemp("redis"))
    made.start()
    yield made
    made.stop()


def asked(server: RedisServer, user: str, *command: str) -> Any:
    with redis.Redis.from_url(url(server, user)) as client:
        return client.execute_command(*command)


@pytest.mark.parametrize("command", MANAGING, ids=" ".join)
@pytest.mark.parametrize("user", [CONTROL_PLANE, PROXY], ids=["control-plane", "proxy"])
def test_nobody_manages_the_server_or_reads_what_is_others(
    server: RedisServer, user: str, command: list[str]
) -> None:
    is_refused(server, user, command)


@pytest.mark.parametrize("command", OF_THE_CONTROL_PLANE, ids=" ".join)
def test_a_proxy_cannot_do_what_is_the_control_planes(server: RedisServer, command: list[str]) -> None:
    is_refused(server, PROXY, command)


def test_a_proxy_tells_others_of_prompts(server: RedisServer) -> None:
    """Over that channel and no other; announcing a change is the control plane's."""
    with redis.Redis.from_url(url(server, PROXY)) as client, client.pubsub() as told:
        told.subscribe(redis_keys.PREFIXES_CHANNEL)
        assert until(lambda: told.get_message(timeout=1), "it may hear")["type"] == "subscribe"
        assert asked(server, PROXY, "PUBLISH", redis_keys.PREFIXES_CHANNEL, "x") == 1


def is_refused(server: RedisServer, user: str, command: list[str]) -> None:
    with pytest.raises(redis.ResponseError) as caught:
        asked(server, user, *command)
    said = str(caught.value).lower()
    assert "permission" in said or "acl failure" in said, said


@pytest.mark.parametrize("user", ["", "default:", "proxy:wrong", "control-plane:wrong", "nobody:x"])
def test_nobody_else_connects(server: RedisServer, user: str) -> None:
    with pytest.raises((redis.AuthenticationError, redis.ResponseError)):
        asked(server, user, "PING") if user else redis.Redis(unix_socket_path=str(server.socket)).ping()


@pytest.mark.parametrize("name", sorted(PASSWORDS))
@pytest.mark.parametrize("password", ["", "short", "with a space in it", "at@at@at@at@at@at@at"])
def test_a_password_that_is_missing_or_unfit_is_refused(name: str, password: str) -> None:
    done = made_users(**{**PASSWORDS, name: password})
    assert done.returncode != 0
    assert done.stderr.startswith(name)
    assert "user" not in done.stdout


def test_the_file_holds_no_password() -> None:
    said = made_users(**PASSWORDS).stdout
    assert "on #" in said
    assert not [password for password in PASSWORDS.values() if password in said]


def test_a_proxy_does_all_its_work_as_its_user(
    server: RedisServer, tmp_path: Path, proxies: Callable[..., Proxy], replicas: list[Replica]
) -> None:
    """Table, changes, reports, acknowledgements and its leave. What Redis refused would be in its log."""
    with redis.Redis.from_url(url(server, CONTROL_PLANE)) as client:
        publisher = Publisher(client)
        publisher.fleet(snapshot(1, replicas))
        publisher.manifest(1)
        running = proxies("--redis", "env:REDIS", environment={"REDIS": url(server, PROXY)}).ready()
        assert running.get()[0] == 200
        publisher.fleet(snapshot(2, replicas))
        until(lambda: running.status()["fleets"]["echo"]["version"] == "1:2", "the change is heard", 10)
        until(lambda: client.zcard(redis_keys.WORKERS), "it reports")
        until(lambda: client.hlen(redis_keys.fleet_acks_key("echo")), "it acknowledges")
        running.signal()
        assert running.exit_status() == 0
        assert client.hlen(redis_keys.REPORTS) == 0
        denied = asked(server, "root:tests-only", "ACL", "LOG")
        assert [entry for entry in denied if b"proxy" in entry and b"sy:" in str(entry).encode()] == []
    assert "permission" not in running.log.lower()


@pytest.fixture
def replicas() -> Iterator[list[Replica]]:
    made = [Replica("a")]
    yield made
    made[0].stop()


@pytest.fixture
def proxies(tmp_path: Path) -> Iterator[Callable[..., Proxy]]:
    started: list[Proxy] = []

    def start(*arguments: str, **options: Any) -> Proxy:
        started.append(Proxy(tmp_path, "--workers", "1", *arguments, **options))
        return started[-1]

    yield start
    for each in started:
        each.stop()
