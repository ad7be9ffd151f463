"""Celery tasks of probing. Thin: fetch, call, return.

Both are safe to lose and to repeat: what a task may do hangs on the claim it holds in Redis
(:mod:`controlplane.probes.keys`), never on the message having been delivered once.

Everything that they wait for has a time limit of its own, because Celery's time limits end nothing in a pool
of threads. Those below say from when on a task hangs (:mod:`controlplane.celery_monitoring.running_tasks`).
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random

import redis
from celery import Task, shared_task
from django.db import Error as DatabaseError
from kombu.exceptions import OperationalError

from controlplane.datastores import task_queue
from controlplane.datastores.redis import client as redis_client
from controlplane.observability.outages import Outages
from controlplane.probes import prober, recorder, result_handler, schedule, targets
from controlplane.probes.reconciled_schedule import ReconciledSchedule

BATCH = 500
"""Replicas that one task takes on."""
EXPIRES_S = 60
"""A batch nobody took by then is dropped unread. Its claims ran out long before, by the clock of Redis;
this limit is judged by the hosts' own clocks and therefore wide."""

Load = Callable[[Sequence[str]], dict[str, targets.DueReplica]]

logger = logging.getLogger(__name__)
outages = Outages(logger)
rng = Random()


@shared_task(
    name="controlplane.probes.tasks.tick",
    ignore_result=True,
    acks_late=True,
    soft_time_limit=60,
    time_limit=90,
)
def tick() -> None:
    """Hand replicas that are due to workers, in batches."""
    with log_outages():
        client = redis_client()
        # What is due first: to compare rows and schedule may take a while.
        _hand_out(client)
        if _known.reconcile(client, rng):
            _hand_out(client)
        for what in ("Redis", "the database", "the task queue"):
            outages.back(what)


def _hand_out(client: "redis.Redis") -> None:
    # Where workers do not keep up, more batches would not be probed either: what is due stays due.
    claims = [] if task_queue.is_full() else schedule.claim(client)
    for first in range(0, len(claims), BATCH):
        batch = claims[first : first + BATCH]
        probe_batch.apply_async((batch,), expires=EXPIRES_S, retry=False)


_known = ReconciledSchedule()


@shared_task(
    bind=True,
    name="controlplane.probes.tasks.probe_batch",
    ignore_result=True,
    acks_late=True,
    soft_time_limit=240,
    time_limit=300,
)
def probe_batch(self: "Task[..., None]", claims: list[tuple[str, int, int]]) -> None:
    """Take on the probes of these claims (uid, lease, ms until due): this process's loop sends them, and its
    recorder records each result as it comes. Called directly, by no worker, it does all that itself.
    """
    with log_outages():
        owned = [schedule.Claim(*claim) for claim in claims]
        if self.request.called_directly:
            recorder.probe_and_record(_begin(owned, targets.load), rng)
        else:
            recorder.recorder(log_outages, rng).follow(_begin(owned, _cache.load))


_cache = targets.TargetCache()


def _begin(claims: list[schedule.Claim], load: Load) -> recorder.Batch:
    client = redis_client()
    found = load([claim.uid for claim in claims])
    longest_s = {uid: target.timing.longest_s for uid, target in found.items()}
    active = schedule.begin(client, claims, longest_s)
    return recorder.Batch(found, active, result_handler.read_counters(client, list(active)))


@contextmanager
def log_outages() -> Iterator[None]:
    """What is away ends the work quietly: claims run out, and a later tick does it again."""
    try:
        yield
    except redis.RedisError as error:
        outages.away("Redis", error)
    except DatabaseError as error:
        outages.away("the database", error)
    except OperationalError as error:
        outages.away("the task queue", error)
    except prober.ProbesOverdue as error:
        logger.error("%s", error)
