"""Client keys in a running proxy: in force and out of it within a second, and on an address for everybody."""

import http.client
import re
import time
from collections.abc import Callable

from routing.contract.client_keys import ALL_FLEETS, key_hash, new_key, new_salt, salt_bytes
from tests.server.rig import LIMIT_S, Proxy, Publisher, Replica, snapshot, until

SALT = new_salt()
KEY = new_key()
HASHES = {key_hash(salt_bytes(SALT), KEY.encode()): [ALL_FLEETS]}
EFFECT_S = 1.0


def ask(port: int, key: str = "") -> int:
    """The status of one request on a connection of its own, which any worker may take."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
    try:
        connection.request("GET", "/", headers={"Authorization": f"Bearer {key}"} if key else {})
        response = connection.getresponse()
        response.read()
        return response.status
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
    assert ask(port) == 401
    assert replicas[0].served + replicas[1].served == 0
    publisher.manifest(2, key_salt=SALT, key_hashes=HASHES)
    until(lambda: ask(port, KEY) == 200, "the key is known", EFFECT_S)
    assert ask(port) == 401


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
