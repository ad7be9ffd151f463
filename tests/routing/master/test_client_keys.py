"""Client keys in a running proxy: in force and out of it within a second, and on an address for everybody."""

import http.client
import json
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from routing.contract.client_keys import ALL_FLEETS, key_hash, new_key, new_salt, salt_bytes
from tests.proxy_process import LIMIT_S, Proxy, Publisher, Replica, fleet_file, snapshot, until
from tests.routing.master.test_graceful_shutdown import gone
from tests.routing.master.test_start_errors import refused
from tests.routing.master.upgrade.test_upgrade import successor

SALT = new_salt()
KEY = new_key()
HASHES = {key_hash(salt_bytes(SALT), KEY.encode()): [ALL_FLEETS]}
EFFECT_S = 1.0
STREAMS_END_S = 2.0


def ask(port: int, key: str = "", path: str = "/") -> int:
    """The status of one request on a connection of its own, which any worker may take."""
    return asked(port, key, path)[0]


def asked(port: int, key: str = "", path: str = "/") -> tuple[int, str]:
    """Status and body."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {key}"} if key else {})
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def test_a_key_made_and_revoked_counts_in_every_worker_within_a_second(
    proxy: Callable[..., Proxy], publisher: Publisher, replicas: list[Replica], redis_url: str
) -> None:
    publisher.fleet(snapshot(1, replicas))
    publisher.manifest(1)
    running = proxy("--redis", redis_url, "--workers", "2").ready()
    # Connections of both workers, from before there was a key.
    kept = [running.client() for _ in range(12)]

    def statuses() -> set[int]:
        found = set()
        for connection in kept:
            connection.request("GET", "/", headers={"x-api-key": KEY})
            response = connection.getresponse()
            response.read()
            found.add(response.status)
        return found

    try:
        assert statuses() == {200}
        publisher.manifest(2, key_salt=SALT, key_hashes=HASHES)
        until(lambda: {ask(running.port) for _ in range(12)} == {401}, "no key, no answer", EFFECT_S)
        assert statuses() == {200}
        other = key_hash(salt_bytes(SALT), new_key().encode())
        publisher.manifest(3, key_salt=SALT, key_hashes={other: [ALL_FLEETS]})
        revoked = time.monotonic()
        until(lambda: statuses() == {401}, "the revoked key is refused by both workers", EFFECT_S)
        assert time.monotonic() - revoked < EFFECT_S
        assert ask(running.port, KEY) == 401
    finally:
        for connection in kept:
            connection.close()


def test_a_revoked_keys_streams_end_in_every_worker(
    proxy: Callable[..., Proxy], publisher: Publisher, replicas: list[Replica], redis_url: str
) -> None:
    publisher.fleet(snapshot(1, replicas))
    publisher.manifest(1, key_salt=SALT, key_hashes=HASHES, keys_required=True)
    running = proxy("--redis", redis_url, "--workers", "2").ready()
    streams = []
    for _ in range(8):
        connection = running.client()
        connection.request("GET", "/stream", headers={"x-api-key": KEY})
        streams.append((connection, connection.getresponse()))
    assert {response.status for _, response in streams} == {200}
    publisher.manifest(2, keys_required=True)
    revoked = time.monotonic()
    for connection, response in streams:
        with pytest.raises((http.client.IncompleteRead, ConnectionResetError)):
            response.read()
        connection.close()
    assert time.monotonic() - revoked < STREAMS_END_S
    assert {ask(running.port, KEY), ask(running.port)} == {401}
    for replica in replicas:
        replica.release.set()


def public_port(running: Proxy) -> int:
    def logged() -> re.Match[str] | None:
        assert running.process.poll() is None, running.log
        return re.search(r"listening on 0\.0\.0\.0:(\d+)", running.log)

    return int(until(logged, "the proxy listens")[1])


def test_an_address_for_everybody_serves_nobody_until_a_key_exists(
    proxy: Callable[..., Proxy], publisher: Publisher, replicas: list[Replica], redis_url: str
) -> None:
    publisher.fleet(snapshot(1, replicas))
    publisher.manifest(1)
    running = proxy("--redis", redis_url, "--workers", "1", listen="0.0.0.0:0").ready()
    port = public_port(running)
    assert "reachable from outside: requests need a client key" in running.log
    status, said = asked(port)
    assert (status, "make one on the page “Client keys”, then" in said) == (401, True)
    assert replicas[0].served + replicas[1].served == 0
    publisher.manifest(2, key_salt=SALT, key_hashes=HASHES)
    until(lambda: ask(port, KEY) == 200, "the key is known", EFFECT_S)
    assert ask(port) == 401


def test_without_a_control_plane_the_file_is_where_keys_are_made(
    proxy: Callable[..., Proxy], replicas: list[Replica], tmp_path: Path
) -> None:
    file = fleet_file(tmp_path / "fleets.yaml", replicas)
    running = proxy("--fleets", str(file), "--workers", "1", listen="0.0.0.0:0").ready()
    status, said = asked(public_port(running))
    assert status == 401
    assert "no client key exists yet: name one under client_keys in the fleet file, then" in said


def test_open_serves_other_machines_while_no_key_exists(
    proxy: Callable[..., Proxy], publisher: Publisher, replicas: list[Replica], redis_url: str
) -> None:
    publisher.fleet(snapshot(1, replicas))
    publisher.manifest(1)
    running = proxy("--redis", redis_url, "--workers", "1", "--open", listen="0.0.0.0:0").ready()
    port = public_port(running)
    assert "--open is given: until a client key exists, whoever reaches it" in running.log
    assert ask(port) == 200
    publisher.manifest(2, key_salt=SALT, key_hashes=HASHES)
    until(lambda: ask(port) == 401, "keys count here too", EFFECT_S)


def test_keys_never_appear_in_a_log(
    proxy: Callable[..., Proxy], publisher: Publisher, replicas: list[Replica], redis_url: str
) -> None:
    publisher.fleet(snapshot(1, replicas))
    publisher.manifest(1, key_salt=SALT, key_hashes=HASHES)
    running = proxy("--redis", redis_url, "--workers", "1", "--log-level", "debug").ready()
    assert ask(running.port, KEY) == 200
    assert ask(running.port, new_key()) == 401
    assert ask(running.port) == 401
    running.signal()
    assert running.exit_status() == 0
    assert "sy-" not in running.log


def keyed_file(folder: Path, replicas: list[Replica], *keys: dict[str, object]) -> Path:
    file = fleet_file(folder / "fleets.yaml", replicas)
    content = json.loads(file.read_text())
    file.write_text(json.dumps({**content, "client_keys": list(keys)}))
    return file


def test_keys_of_a_fleet_file_are_read_from_where_it_says(
    proxy: Callable[..., Proxy], replicas: list[Replica], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SY_TEST_KEY", KEY)
    other = new_key()
    (tmp_path / "other.key").write_text(f"{other}\n")
    entries = [
        {"name": "a", "key": "env:SY_TEST_KEY", "fleets": ["echo"]},
        {"name": "b", "key": "file:other.key"},
    ]
    running = proxy("--fleets", str(keyed_file(tmp_path, replicas, *entries)), "--workers", "1").ready()
    assert [ask(running.port, key) for key in (KEY, other, "", new_key())] == [200, 200, 401, 401]
    keyed_file(tmp_path, replicas, entries[1])
    until(lambda: ask(running.port, KEY) == 401, "the key that left the file is refused")
    assert ask(running.port, other) == 200
    keyed_file(tmp_path, replicas, {"name": "a", "key": "env:SY_NO_SUCH_KEY"})
    until(lambda: "the environment variable is not set" in running.log, "the log says what is wrong")
    assert ask(running.port, other) == 200
    assert "sy-" not in running.log.replace("(sy- and", "").replace("print('sy-'", "")


def test_taking_the_last_key_out_of_the_file_opens_nothing(
    proxy: Callable[..., Proxy], replicas: list[Replica], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SY_TEST_KEY", KEY)
    entry = {"name": "a", "key": "env:SY_TEST_KEY"}
    file = keyed_file(tmp_path, replicas, entry)
    running = proxy("--fleets", str(file), "--workers", "1").ready()
    assert [ask(running.port, key) for key in (KEY, "")] == [200, 401]

    keyed_file(tmp_path, replicas)
    until(lambda: ask(running.port, KEY) == 401, "the key that left the file is refused")
    assert ask(running.port) == 401
    assert "write keys_required: false to serve without keys, true to keep it so" in running.log
    # A successor goes on with that.
    old = running.workers()
    assert running.admin("/upgrade", "POST")[0] == 202
    successor(running, old)
    until(lambda: gone(old), "the old workers have finished")
    assert ask(running.port) == 401

    def say(required: bool) -> None:
        content = json.loads(keyed_file(tmp_path, replicas).read_text())
        file.write_text(json.dumps({**content, "keys_required": required}))

    say(False)
    until(lambda: ask(running.port) == 200, "who says so opens it")
    say(True)
    until(lambda: ask(running.port) == 401, "and closes it without any key")
    keyed_file(tmp_path, replicas, entry)
    until(lambda: ask(running.port, KEY) == 200, "the key is back")


@pytest.mark.parametrize(("keys", "required", "status"), [(0, True, 401), (1, False, 200), (0, None, 200)])
def test_keys_required_at_the_start(
    proxy: Callable[..., Proxy],
    replicas: list[Replica],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    keys: int,
    required: bool | None,
    status: int,
) -> None:
    monkeypatch.setenv("SY_TEST_KEY", KEY)
    file = keyed_file(tmp_path, replicas, *[{"name": "a", "key": "env:SY_TEST_KEY"}] * keys)
    if required is not None:
        file.write_text(json.dumps({**json.loads(file.read_text()), "keys_required": required}))
    running = proxy("--fleets", str(file), "--workers", "1").ready()
    assert ask(running.port) == status
    assert ask(running.port, KEY) == (401 if required and not keys else 200)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"key": KEY}, "client_keys[0].key: must be a reference to the key, not the key itself: env:NAME"),
        ({"key": "env:"}, "client_keys[0].key: must be a reference to the key"),
        ({"key": "env:SY_NO_SUCH_KEY"}, "env:SY_NO_SUCH_KEY: the environment variable is not set"),
        ({"key": "env:HOME"}, "env:HOME: it is not a client key"),
        ({"key": "file:nowhere.key"}, "file:nowhere.key: cannot be read: No such file or directory"),
        ({"key": "env:SY_TEST_KEY", "fleets": ["ecko"]}, 'unknown fleet "ecko"; did you mean "echo"?'),
        ({"key": "env:SY_TEST_KEY", "fleets": []}, "needs at least 1 of the fleets"),
        ({}, 'a client key needs "key"'),
    ],
)
def test_a_key_that_cannot_be_used_stops_the_start(
    replicas: list[Replica],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    entry: dict[str, object],
    words: str,
) -> None:
    monkeypatch.setenv("SY_TEST_KEY", KEY)
    file = keyed_file(tmp_path, replicas, {"name": "a", **entry})
    status, said = refused("--fleets", str(file), "--listen", "127.0.0.1:0")
    assert status == 2
    assert words in said
    assert said.startswith(f"{file}: line 1, column ")
    assert KEY not in said
