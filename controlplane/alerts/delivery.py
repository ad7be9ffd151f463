"""Delivery: takes messages from the outbox, at least once each, and puts back what was not taken.

A row is claimed for a while by compare-and-set; a worker that is killed in between leaves it to the next
turn, which sends the same message with the same id. Of one group and destination the oldest goes first, so
that no "resolved" overtakes its "firing".
"""

import asyncio
import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from random import Random

from django.db.models import F, Q
from django.utils import timezone

from controlplane.alerts import sending, store
from controlplane.alerts.send_result import SendResult
from controlplane.models import AlertDelivery, AlertDestination, Event
from controlplane.services.unit_of_work import unit_of_work

AT_ONCE = 50
CLAIM_S = 60.0
FIRST_RETRY_S = 5.0
LONGEST_RETRY_S = 300.0
GIVE_UP_S = 24 * 3600.0

logger = logging.getLogger(__name__)


def retry_in_s(attempts: int, rng: Random) -> float:
    """After so many attempts: twice as long each time, less up to a half of it (jitter)."""
    longest = min(FIRST_RETRY_S * 2 ** max(attempts - 1, 0), LONGEST_RETRY_S)
    return rng.uniform(longest / 2, longest)


def deliver_due(rng: Random) -> int:
    """Send what is due, AT_ONCE at most; how many were sent. Raises django.db.Error."""
    claimed = _claim(timezone.now())
    if claimed:
        results = asyncio.run(_send_all(claimed))
        for row, result in zip(claimed, results, strict=True):
            _record(row, result, rng)
    return len(claimed)


async def _send_all(rows: Sequence[AlertDelivery]) -> list[SendResult]:
    return await asyncio.gather(*(sending.send(row.destination, store.message_in(row)) for row in rows))


def _claim(now: datetime) -> list[AlertDelivery]:
    """The oldest of each group and destination, where it is due and nobody sends it."""
    waiting = AlertDelivery.objects.filter(done_at=None, destination__enabled=True)
    firsts: dict[tuple[int, str, str], AlertDelivery] = {}
    for row in waiting.select_related("destination").order_by("id"):
        firsts.setdefault((row.destination_id, row.rule, row.fleet_name), row)
    claimed: list[AlertDelivery] = []
    for row in firsts.values():
        if row.due_at > now or len(claimed) >= AT_ONCE:
            continue
        mine = AlertDelivery.objects.filter(
            Q(claimed_until=None) | Q(claimed_until__lt=now), pk=row.pk, done_at=None, attempts=row.attempts
        ).update(claimed_until=now + timedelta(seconds=CLAIM_S), attempts=F("attempts") + 1)
        if mine:
            row.attempts += 1
            claimed.append(row)
    return claimed


def _record(row: AlertDelivery, result: SendResult, rng: Random) -> None:
    now = timezone.now()
    words = result.words[:300]
    gives_up = not result.taken and now - row.created_at > timedelta(seconds=GIVE_UP_S)
    with unit_of_work(store.ACTOR) as write:
        AlertDelivery.objects.filter(pk=row.pk, done_at=None).update(
            claimed_until=None,
            last_answer=words,
            delivered=result.taken,
            done_at=now if result.taken or gives_up else None,
            due_at=now + timedelta(seconds=max(retry_in_s(row.attempts, rng), result.retry_after_s)),
        )
        destination = AlertDestination.objects.filter(pk=row.destination_id)
        destination.update(last_answer=words, last_taken=result.taken, last_sent_at=now)
        if result.taken:
            destination.update(failing_since=None)
        else:
            destination.filter(failing_since=None).update(failing_since=now)
        if gives_up:
            name = row.destination.name
            text = f"a notification to {name} was given up after 24 h: {words}"
            write.event(Event.Kind.ALERT, text, fleet=row.fleet_name or None, state="down")
    if not result.taken:
        logger.warning(
            "destination %s has not taken notification %s: %s", row.destination.name, row.uid, words
        )
