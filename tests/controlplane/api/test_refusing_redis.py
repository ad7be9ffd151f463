"""While Redis answers and refuses writes, nothing old is told as if it were seen now."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
from django.test import Client

from tests.conftest import RedisServer
from tests.controlplane.api.test_replicas import store_frame
from tests.controlplane.conftest import Api
from tests.controlplane.datastores.refusals import full, read_only

Refusing = Callable[[RedisServer], AbstractContextManager[None]]

pytestmark = [
    pytest.mark.any_database,
    pytest.mark.parametrize(
        ("refusing", "state", "words"),
        [
            (full, "full", "full (maxmemory) and refuses writes"),
            (read_only, "read-only", "a read-only replica and refuses writes"),
        ],
    ),
]


def test_a_replica_says_that_live_data_are_missing(
    api: Api,
    llm: str,
    redis_server: RedisServer,
    redis_client: Any,
    refusing: Refusing,
    state: str,
    words: str,
) -> None:
    store_frame(redis_client, age_s=60)
    with refusing(redis_server):
        (first, _) = api.get("/fleets/llm/replicas").json()["results"]
    assert first["in_flight"] is None
    assert first["why"].endswith(f"; live data is missing: Redis is {words}")


def test_a_write_says_why_it_is_not_published(
    api: Api, llm: str, redis_server: RedisServer, refusing: Refusing, state: str, words: str
) -> None:
    with refusing(redis_server):
        told = api.patch("/fleets/llm/replicas/a", {"weight": 3.0}).json()
    assert told["published"] is False
    assert told["not_published"].startswith(f"Redis is {words}; proxies get the change ")


def test_readiness_and_the_system_name_it(
    api: Api, redis_server: RedisServer, refusing: Refusing, state: str, words: str
) -> None:
    with refusing(redis_server):
        ready = Client().get("/readyz")
        parts = {part["name"]: part for part in api.get("/system").json()["parts"]}
    assert (ready.status_code, ready.json()["redis"]) == (200, words)
    assert (parts["redis"]["level"], parts["redis"]["state"]) == ("bad", state)
    assert parts["redis"]["words"].startswith(f"It is {words}")
    assert parts["redis"]["cure"]
