"""Counting the workers that have applied a version."""

import threading
import time
from typing import Any

import pytest

from controlplane.publishing.publisher import acknowledged
from routing.contract import redis_keys
from routing.contract.table import Version
from tests.controlplane import workers


def counted(version: str, wait_s: float = 0.0) -> tuple[int, int, int]:
    return acknowledged("llm", Version.parse(version), wait_s)[:3]


@pytest.mark.parametrize(
    ("applied", "refused", "expected"),
    [
        ("1:5", "", (1, 1, 0)),
        ("1:6", "", (1, 1, 0)),
        ("2:1", "", (1, 1, 0)),
        ("1:4", "", (1, 0, 0)),
        ("1:4", "bad table", (1, 0, 1)),
        ("0:0", "", (1, 0, 0)),
        ("nonsense", "", (1, 0, 0)),
    ],
)
def test_what_counts(redis_client: Any, applied: str, refused: str, expected: tuple[int, int, int]) -> None:
    workers.alive(redis_client, "w")
    workers.acknowledge(redis_client, "llm", "w", applied, refused)
    assert counted("1:5") == expected


def test_the_dead_do_not_count(redis_client: Any) -> None:
    workers.silent_for(redis_client, "gone", redis_keys.WORKER_TTL_S + 5)
    workers.acknowledge(redis_client, "llm", "gone", "1:5")
    assert counted("1:5") == (0, 0, 0)


def test_unreadable_answers_do_not_count(redis_client: Any) -> None:
    workers.alive(redis_client, "w")
    redis_client.hset(redis_keys.fleet_acks_key("llm"), "w", b"{")
    assert counted("1:5") == (1, 0, 0)


def test_waits_for_the_last_one_and_no_longer(redis_client: Any) -> None:
    workers.alive(redis_client, "w")
    timer = threading.Timer(0.05, workers.acknowledge, (redis_client, "llm", "w", "1:5"))
    timer.start()
    answer = acknowledged("llm", Version(1, 5), 20.0)
    timer.join()
    assert answer[:3] == (1, 1, 0)
    assert 0 < answer.waited_ms < 10_000


def test_waits_at_most_as_long_as_asked(redis_client: Any) -> None:
    workers.alive(redis_client, "w")
    began = time.monotonic()
    assert acknowledged("llm", Version(1, 5), 0.1).applied == 0
    assert time.monotonic() - began >= 0.08


def test_an_absent_redis_answers_at_once(redis_server: Any) -> None:
    redis_server.stop()
    assert counted("1:5", wait_s=20.0) == (0, 0, 0)
