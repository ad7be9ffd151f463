"""Celery tasks of alerts. Thin. Both are safe to lose and to repeat: what is to be sent stands in the
database, and who sends it holds a claim there."""

import logging
from random import Random

import redis
from celery import shared_task
from django.db import Error as DatabaseError
from kombu.exceptions import OperationalError

from controlplane.alerts import last_evaluation
from controlplane.alerts.delivery import AT_ONCE, deliver_due
from controlplane.alerts.evaluator import Evaluator
from controlplane.observability.outages import Outages

logger = logging.getLogger(__name__)
outages = Outages(logger)
rng = Random()


@shared_task(
    name="controlplane.alerts.tasks.tick",
    ignore_result=True,
    acks_late=True,
    soft_time_limit=60,
    time_limit=90,
)
def tick() -> None:
    """Send what is due; and evaluate, where no conductor does, which is one of the things to be told of."""
    try:
        if last_evaluation.is_overdue(last_evaluation.age_s()):
            _stand_in.evaluate()
    except redis.RedisError as error:
        outages.away("Redis", error)
    _deliver()


@shared_task(
    name="controlplane.alerts.tasks.deliver",
    ignore_result=True,
    acks_late=True,
    soft_time_limit=60,
    time_limit=90,
)
def deliver() -> None:
    """Send what is due."""
    _deliver()


def deliver_soon() -> None:
    """Ask a worker to. Where that fails, the next tick does it."""
    try:
        deliver.apply_async(expires=60, retry=False)
    except (OperationalError, redis.RedisError, OSError) as error:
        logger.info("notifications wait for the next tick: %s", error)


def _deliver() -> None:
    try:
        while deliver_due(rng) == AT_ONCE:
            pass
        outages.back("the database")
    except DatabaseError as error:
        outages.away("the database", error)


_stand_in = Evaluator()
"""Keeps from turn to turn what it knows; its own messages are sent right behind."""
