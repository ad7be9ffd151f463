"""Installation id: which Redis this database may publish to, and what to do when it is another's.

The id is made with the database. The first that publishes to a Redis binds it; from then on only that
installation is let in, which the scripts of :mod:`routing.contract.redis_keys` check as they store. Proxies
remember the id as well (:mod:`routing.contract.installation`), so a Redis that lost everything is bound anew
only by the installation that they route for.
"""

import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

import redis as redis_package
from django.db import Error as DatabaseError

from controlplane.datastores import database_place, redis
from controlplane.models import TableState
from controlplane.observability.heartbeats import Heartbeats
from routing.contract import redis_keys
from routing.contract.decode_errors import DECODE_ERRORS
from routing.contract.redis_keys import INSTANCE_TTL_S
from routing.contract.telemetry import WorkerReport, decode_report

POLL_S = 0.25
CURE = (
    "Correct SWITCHYARD_REDIS_URL or SWITCHYARD_DATABASE_URL, or give this installation a Redis of its own. "
    "If this database is to replace the other one: `switchyard takeover` (docs/production.md)."
)


COPY = (
    "Another database with the installation id of this one ({}) publishes to this Redis at the same time: "
    "one is a copy of the other. Stop the one that is not meant to run; if that is the other one, this one "
    f"goes on {INSTANCE_TTL_S} s after it ended. Give a copy a Redis of its own (SWITCHYARD_REDIS_URL)."
)


def foreign(bound: str) -> str:
    return f"This Redis belongs to another installation, {bound or 'unknown'}. {CURE}"


def followed_by(others: Iterable[str]) -> str:
    return (
        "The proxies that report to this Redis route for another installation, "
        f"{', '.join(sorted(others))}. {CURE}"
    )


class Identity(NamedTuple):
    """Who publishes."""

    id: str
    instance: str
    epoch: int
    succeeded: tuple[str, ...]

    @property
    def arguments(self) -> tuple[str, str, str]:
        """The last arguments of ``STORE_IF_NEWER``."""
        return self.id, self.instance, " ".join(self.succeeded)


class NotOurRedis(Exception):
    """Redis, or the proxies that report to it, belong to another installation; the text names the cure."""

    def __init__(self, words: str, *, copy: bool = False) -> None:
        super().__init__(words)
        self.copy = copy
        """Another database with our id: it may be gone in INSTANCE_TTL_S."""


_place_checked = threading.Event()
"""Set once this process has seen that the database is where its row says."""


def settled() -> TableState:
    """The one row, with its ids: one query, unless something is missing. Raises django.db.Error."""
    row = TableState.objects.order_by("pk").first()
    if row is None or not row.installation or not row.instance or not _place_checked.is_set():
        row = _settle()
        _place_checked.set()
    return row


def _settle() -> TableState:
    """Makes what is missing. A database that is not where it was gets another instance: it is a copy, or was
    moved. Whoever is first decides."""
    pk = (TableState.objects.order_by("pk").first() or TableState.objects.get_or_create(pk=1)[0]).pk
    only = TableState.objects.filter(pk=pk)
    only.filter(installation="").update(installation=str(uuid.uuid4()))
    row, place = only.get(), database_place.current()
    if not row.instance or row.place != place:
        only.filter(instance=row.instance).update(instance=uuid.uuid4().hex, place=place)
    return only.get()


def identity(row: TableState | None = None) -> Identity:
    """``row``: as :func:`settled` gave it."""
    row = row or settled()
    _Known.identity = Identity(row.installation, row.instance, row.epoch, tuple(row.succeeded))
    return _Known.identity


class _Known:
    identity: Identity | None = None


def known() -> Identity | None:
    """As this process last read it; ``None``: not yet."""
    return _Known.identity


class _Held:
    """The instance that this process last held Redis for. A new one of the same database (the server was
    restarted, and is in another place by that) takes its place without waiting."""

    instance = ""


def hold(ours: Identity) -> None:
    """Renews our hold on Redis; binds it where nobody has yet. Raises NotOurRedis, redis.RedisError."""
    standing = _ask(ours, "renew")
    if standing == b"unbound":
        _refuse_followed(ours)
        standing = _ask(ours, "claim")
    if standing != b"ours":
        raise refusal(standing)
    _Held.instance = ours.instance


def take(ours: Identity) -> None:
    """Binds Redis to us, whatever it was bound to. Raises redis.RedisError."""
    _ask(ours, "take")


def release(ours: Identity) -> None:
    """A copy of this database that takes its place need not wait. Raises redis.RedisError."""
    redis.unchecked_client().eval(redis_keys.RELEASE_INSTANCE, 1, redis_keys.INSTALLATION, ours.instance)


def refusal(standing: bytes) -> NotOurRedis:
    """``standing``: what a script returned. Raises redis.RedisError."""
    bound = binding().id
    if standing == b"copy":
        return NotOurRedis(COPY.format(bound), copy=True)
    return NotOurRedis(foreign(bound))


class Binding(NamedTuple):
    """What Redis is bound to."""

    id: str = ""
    """Empty: to nothing yet."""
    instance: str = ""
    heard_s: float | None = None
    """Since that instance was heard; ``None``: never."""
    epoch: int = 0
    """Of that instance's database."""

    @property
    def is_live(self) -> bool:
        return self.heard_s is not None and self.heard_s < INSTANCE_TTL_S

    def is_followed_by(self, ours: Identity) -> bool:
        """Whether ours has succeeded it, in a later epoch, as the scripts that store see it."""
        return self.id in ours.succeeded and ours.epoch > self.epoch

    def is_copy_of(self, installation: str, instance: str) -> bool:
        """Whether it is another database, which is running, with the id of this one."""
        return self.id == installation and self.instance != instance and self.is_live


def binding() -> Binding:
    """Raises redis.RedisError."""
    pipeline = redis.unchecked_client().pipeline(transaction=False)
    pipeline.time()
    pipeline.hmget(redis_keys.INSTALLATION, "id", "instance", "heard", "epoch")
    (seconds, _), (name, instance, heard, epoch) = pipeline.execute()
    heard_s = max(0.0, seconds - float(heard)) if heard else None
    named = (name or b"").decode("utf-8", "replace")
    return Binding(named, (instance or b"").decode(), heard_s, int(epoch or 0))


def _ask(ours: Identity, how: str) -> bytes:
    answer: bytes = redis.unchecked_client().eval(
        redis_keys.HOLD_INSTALLATION,
        1,
        redis_keys.INSTALLATION,
        ours.id,
        ours.instance,
        str(ours.epoch),
        " ".join(ours.succeeded),
        how,
        _Held.instance,
    )
    return answer


def live_reports() -> list[WorkerReport]:
    """Of the proxy workers heard within WORKER_TTL_S. Raises redis.RedisError."""
    found = []
    for heartbeat in Heartbeats(redis.unchecked_client(), redis_keys.WORKERS, redis_keys.REPORTS):
        if heartbeat.age_s <= redis_keys.WORKER_TTL_S:
            with suppress(*DECODE_ERRORS):
                found.append(decode_report(heartbeat.body or b""))
    return found


def followed(reports: Iterable[WorkerReport]) -> dict[str, int]:
    """Installations that these workers route for → how many."""
    return dict(Counter(report.installation for report in reports if report.installation))


def _refuse_followed(ours: Identity) -> None:
    """An emptied Redis whose proxies route for another installation is that one's all the same."""
    others = followed(live_reports()).keys() - {ours.id, *ours.succeeded}
    if others:
        raise NotOurRedis(followed_by(others))


def check_at_start() -> None:
    """Raises NotOurRedis for a process that must not start here. A copy of this database that has just been
    stopped is waited for. Nothing is known, and nothing said, while Redis or the database is away."""
    until = time.monotonic() + INSTANCE_TTL_S + 1
    while True:
        try:
            hold(identity())
            return
        except (redis_package.RedisError, DatabaseError):
            return
        except NotOurRedis as refused:
            if not refused.copy or time.monotonic() > until:
                raise
        time.sleep(POLL_S)
