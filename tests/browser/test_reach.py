"""A write is in use at every proxy worker within a second. Needs no browser.

Timed by Redis, which sees the change announced and each worker's answer to it: when this process is late to
look, on a busy machine, that costs nothing and hides nothing.
"""

from collections.abc import Callable

import pytest
import redis

from routing.contract import redis_keys
from tests.browser.site import Site
from tests.conftest import RedisServer
from tests.proxy_process import Proxy, until

pytestmark = pytest.mark.system

WITHIN_S = 1.0
WORKERS = 2


def test_a_write_is_at_every_worker_within_a_second(
    site: Site, new_fleet: Callable[..., str], proxy: Proxy, redis_server: RedisServer
) -> None:
    name = new_fleet()
    with redis.Redis.from_url(redis_server.url, socket_timeout=20) as client:
        acks = redis_keys.fleet_acks_key(name)
        until(lambda: client.hlen(acks) == WORKERS, "both workers know the fleet")
        for weight in (2.0, 3.0, 4.0):
            with client.monitor() as seen:
                answer = site.api("PATCH", f"/fleets/{name}/replicas/a", {"weight": weight})
                took = seconds_to_every_worker(seen, name, answer["table_version"])
            assert answer["workers"]["live"] == WORKERS
            assert len(took) == WORKERS
            assert max(took) <= WITHIN_S


def seconds_to_every_worker(seen: "redis.client.Monitor", fleet: str, version: str) -> list[float]:
    """From the announcement of this fleet to each worker's word that it routes from ``version``."""
    announced = f"PUBLISH {redis_keys.CHANGES_CHANNEL} {fleet}"
    rung, took = None, {}
    while len(took) < WORKERS:
        one = seen.next_command()
        if one["command"] == announced:
            rung = one["time"]
        words = one["command"].split(" ", 3)
        if words[:2] == ["HSET", redis_keys.fleet_acks_key(fleet)] and f'"{version}"' in words[3]:
            assert rung is not None, "acknowledged before it was told"
            took[words[2]] = one["time"] - rung
    return list(took.values())
