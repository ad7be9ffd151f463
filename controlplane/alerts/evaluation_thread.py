"""Evaluation thread: evaluates alerts beside the conductor's ticks, so that neither holds up the other."""

import logging
import threading
from collections.abc import Callable

import redis

from controlplane.alerts.evaluator import EVERY_S, Evaluator
from controlplane.alerts.tasks import deliver_soon
from controlplane.datastores.redis import client as redis_client

logger = logging.getLogger(__name__)


def start(leads: Callable[[], bool]) -> None:
    """From now on, until the process ends, while ``leads()`` or nobody can tell who does."""
    evaluator = Evaluator(deliver=deliver_soon)
    threading.Thread(target=_run, args=(evaluator, leads), name="alerts", daemon=True).start()


def _run(evaluator: Evaluator, leads: Callable[[], bool]) -> None:
    stopping = threading.Event()
    while not stopping.wait(EVERY_S):
        try:
            if leads() or not _redis_answers():
                evaluator.evaluate()
        except Exception:
            logger.exception("alerts were not evaluated; the next turn tries again")


def _redis_answers() -> bool:
    try:
        return bool(redis_client().ping())
    except redis.RedisError:
        return False
