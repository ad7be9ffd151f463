"""What a Redis that answers with an error says, in words."""

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
import redis

from controlplane.datastores.availability import redis_state, write_refusal
from controlplane.datastores.redis_refusal import WRITE_CHECK_KEY, refusal
from controlplane.observability.outages import Outages
from tests.conftest import RedisServer
from tests.controlplane.datastores.refusals import full, read_only

pytestmark = pytest.mark.any_database


@pytest.mark.parametrize(("refusing", "state"), [(full, "full"), (read_only, "read-only")])
def test_of_a_real_server(
    refusing: Callable[[RedisServer], AbstractContextManager[None]], state: str, redis_server: RedisServer
) -> None:
    with refusing(redis_server):
        found = write_refusal()
        assert found is not None
        assert found.state == state
        assert redis_state() == found.words
    assert (write_refusal(), redis_state()) == (None, "ok")


def test_the_check_leaves_nothing(redis_server: RedisServer, redis_client: "redis.Redis") -> None:
    assert write_refusal() is None
    assert not redis_client.exists(WRITE_CHECK_KEY)


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (redis.ResponseError("MISCONF Valkey is configured to save snapshots, but cannot."), "unsaved"),
        (redis.AuthenticationError("Authentication required."), "refused"),
        (redis.exceptions.NoPermissionError("this user has no permissions"), "refused"),
        (redis.ResponseError("Error running script: -READONLY You can't write"), "read-only"),
        (redis.ResponseError("wrong number of arguments"), None),
        (redis.ConnectionError("connection refused"), None),
        (OSError("OOM"), None),
    ],
)
def test_of_an_error(error: Exception, state: str | None) -> None:
    found = refusal(error)
    assert (found and found.state) == state


def test_the_log_says_that_it_answers(caplog: pytest.LogCaptureFixture) -> None:
    outages = Outages(logging.getLogger("controlplane.tests"))
    outages.away("Redis", redis.exceptions.OutOfMemoryError("command not allowed"))
    outages.away("the queue", redis.ConnectionError("gone"))
    assert caplog.messages == [
        "Redis answers with an error, still trying: command not allowed",
        "the queue does not answer, still trying: gone",
    ]
