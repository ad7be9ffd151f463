"""Immediate probes: a replica is probed at once after it was registered or its URL changed."""

import logging
from collections.abc import Sequence
from typing import Any

import redis
from django.dispatch import receiver
from kombu.exceptions import OperationalError

from controlplane.celery import app
from controlplane.datastores import task_queue
from controlplane.datastores.redis import client as redis_client
from controlplane.probes import schedule
from controlplane.services.signals import replicas_unprobed

logger = logging.getLogger(__name__)


@receiver(replicas_unprobed)
def probe_immediately(uids: Sequence[str], **_: Any) -> None:
    """Costs two short messages; with Redis away nothing is lost, the next tick sees to it."""
    try:
        schedule.make_due(redis_client(), uids)
        if task_queue.is_full():
            return  # no worker takes tasks; the first one that does takes a tick
        # By name: the web process need not import what probing takes.
        app.send_task("controlplane.probes.tasks.tick", expires=60, retry=False, ignore_result=True)
    except (redis.RedisError, OperationalError) as error:
        logger.info("the first probe waits for the next tick: %s", error)
