"""Celery tasks of probing. Thin: fetch, call, return.

Both are safe to lose and to repeat: what a task may do hangs on the claim it holds in Redis
(:mod:`controlplane.probes.keys`), never on the message having been delivered once.

Everything that they wait for has a time limit of its own, because Celery's time limits end nothing in a pool
of threads. Those below say from when on a task hangs (:mod:`controlplane.celery_monitoring.running_tasks`).
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

import redis
from celery import shared_task
from django.db import Error as DatabaseError
from kombu.exceptions import OperationalError

from controlplane.datastores import task_queue
from controlplane.datastores.redis import client as redis_client
from controlplane.observability.metrics import LOAD_PAGES, PROBE_LATENESS
from controlplane.observability.outages import Outages
from controlplane.probes import prober, result_handler, schedule, targets

BATCH = 50
"""Replicas that one task probes."""
EXPIRES_S = 60
"""A batch nobody took by then is dropped unread. Its claims ran out long before, by the clock of Redis;
this limit is judged by the hosts' own clocks and therefore wide."""

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
    """Hand replicas that are due before the next tick to workers, in batches."""
    with log_outages():
        client = redis_client()
        schedule.reconcile(client, targets.timings(), rng)
        # Where workers do not keep up, more batches would not be probed either: what is due stays due.
        claims = [] if task_queue.is_full() else schedule.claim(client)
        for first in range(0, len(claims), BATCH):
            batch = claims[first : first + BATCH]
            probe_batch.apply_async((batch,), expires=EXPIRES_S, retry=False)
        for what in ("Redis", "the database", "the task queue"):
            outages.back(what)


@shared_task(
    name="controlplane.probes.tasks.probe_batch",
    ignore_result=True,
    acks_late=True,
    soft_time_limit=240,
    time_limit=300,
)
def probe_batch(claims: list[tuple[str, int, int]]) -> None:
    """Probe the replicas of these claims (uid, lease, ms until due) and record each result as it comes."""
    with log_outages():
        _probe([schedule.Claim(*claim) for claim in claims])


def _probe(claims: list[schedule.Claim]) -> None:
    client = redis_client()
    found = targets.load([claim.uid for claim in claims])
    longest_s = {uid: target.timing.longest_s for uid, target in found.items()}
    active = schedule.begin(client, claims, longest_s)
    for claim in active.values():
        PROBE_LATENESS.observe(claim.late_s)
    counters = result_handler.read_counters(client, list(active))
    questions = [
        prober.ReplicaProbe(
            uid,
            found[uid].url,
            found[uid].checks,
            found[uid].has_passed,
            claim.wait_s,
            found[uid].tls,
            found[uid].credential,
        )
        for uid, claim in active.items()
    ]
    for finding in prober.probe(questions):
        uid = finding.uid
        if finding.load is not None:
            LOAD_PAGES.labels("nothing" if finding.load.problem else "figures").inc()
        try:
            with log_outages():
                result_handler.handle(client, found[uid], active[uid].lease, counters[uid], finding, rng)
        except Exception:
            # One replica's trouble must not cost the others of its batch their results.
            logger.exception("the probe of %s could not be recorded", found[uid].name)


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
