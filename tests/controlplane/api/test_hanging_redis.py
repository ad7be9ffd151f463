"""While Redis hangs the API answers with what the database knows, and soon."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.test import Client

from tests.conftest import RedisServer
from tests.controlplane.conftest import Api
from tests.controlplane.datastores.hangs import hanging

LIMIT_S = 10.0
"""For all calls of a test together. One of them waits for one time limit; without a circuit breaker each
would wait for several. (Promised is a second a call: this leaves room for a slow machine.)"""

pytestmark = pytest.mark.any_database


@contextmanager
def soon() -> Iterator[None]:
    began = time.monotonic()
    yield
    assert time.monotonic() - began < LIMIT_S


def test_reads_have_what_the_database_knows(api: Api, llm: str, redis_server: RedisServer) -> None:
    api.get("/fleets")
    with hanging(redis_server), soon():
        for path in ("/fleets", "/fleets/llm", "/fleets/llm/policy", "/events", "/accelerators", "/system"):
            assert api.get(path).status_code == 200, path
        (first, second) = api.get("/fleets/llm/replicas").json()["results"]
        assert api.get("/fleets/llm/replicas/a").json()["why"] == first["why"]
        assert api.get("/live").status_code == 503
    assert first["why"].endswith("; live data is missing: Redis does not respond")
    assert (first["name"], first["in_flight"], second["effective_weight"]) == ("a", None, 2.0)
    assert "Redis does not respond" not in api.get("/fleets/llm/replicas/a").json()["why"]


def test_writes_say_that_publishing_is_pending(api: Api, llm: str, redis_server: RedisServer) -> None:
    new = {"name": "c", "url": "http://127.0.0.1:9103"}
    with hanging(redis_server), soon():
        changed = api.patch("/fleets/llm/replicas/a", {"weight": 3.0})
        added = api.post("/fleets/llm/replicas?trial=no", new)
        policy = api.patch("/fleets/llm/policy", {"strategy": "round_robin"})
        gone = api.delete("/fleets/llm/replicas/b")
    assert [answer.status_code for answer in (changed, added, policy, gone)] == [200, 201, 200, 204]
    assert [answer.json()["published"] for answer in (changed, added, policy)] == [False] * 3
    assert changed.json()["weight"] == 3.0


def test_readiness_names_it(redis_server: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    with hanging(redis_server), soon():
        for _ in range(5):
            answer = Client().get("/readyz")
            assert (answer.status_code, answer.json()["redis"]) == (200, "away")
    assert "/readyz: redis: away: " in caplog.text


def test_signing_in_and_pages_do_not_need_it(redis_server: RedisServer, django_user_model: type) -> None:
    django_user_model.objects.create_user("paula", password="a-long-password-4")  # type: ignore[attr-defined]
    browser = Client()
    with hanging(redis_server), soon():
        signed_in = browser.post("/login", {"username": "paula", "password": "a-long-password-4"})
        assert signed_in.status_code == 302
        assert browser.get("/").status_code == 200
