"""Several beats on one Redis: what is due is sent once, and another sends when the one that did is killed."""

import signal
import subprocess
import sys
from contextlib import AbstractContextManager

import pytest
import redis

from controlplane.celery_monitoring.beat import LEADER_KEY
from controlplane.datastores.task_queue import queue_length
from tests.conftest import RedisServer
from tests.process_group import process_group
from tests.proxy_process import until

pytestmark = pytest.mark.any_database

EVERY_S = 1.0
"""The tick of the probes, of the settings."""
SENT = 8


def beat() -> "AbstractContextManager[subprocess.Popen[bytes]]":
    command = [sys.executable, "-m", "celery", "--quiet", "-A", "controlplane.celery", "beat", "--pidfile="]
    return process_group([*command, "--loglevel", "warning"])


def now(client: "redis.Redis") -> float:
    seconds, microseconds = client.time()
    return float(seconds + microseconds / 1e6)


def test_of_two_beats_one_sends_and_is_followed(
    redis_server: RedisServer, redis_client: "redis.Redis"
) -> None:
    with beat() as first:
        token = until(lambda: redis_client.get(LEADER_KEY), "the first one leads")
        until(queue_length, "it sends")
        with beat() as second:
            until(lambda: redis_client.zcard("sy:processes") >= 2, "both run")
            sent, began = queue_length(), now(redis_client)
            until(lambda: queue_length() >= sent + SENT, "some more")
            took_s = now(redis_client) - began
            # A machine that is slow only makes it longer; two that send would need half of it.
            assert took_s > 0.75 * (SENT - 1) * EVERY_S
            assert redis_client.get(LEADER_KEY) == token
            first.kill()
            other = until(lambda: (new := redis_client.get(LEADER_KEY)) != token and new, "another one leads")
            sent = queue_length()
            until(lambda: queue_length() > sent, "it sends")
            assert redis_client.get(LEADER_KEY) == other
            second.terminate()
            assert second.wait(40) in (0, -signal.SIGTERM, 143)
            assert redis_client.get(LEADER_KEY) is None, "it has given up the lease"
