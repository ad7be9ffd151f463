"""Redis owner: while a process runs, whether its Redis is (still) this installation's.

At the start a process is refused on another installation's Redis. This is for a Redis that was away then,
was replaced by another one, or was taken over. Web and conductor keep away from it and go on by themselves
once it is theirs again; a Celery worker and beat end, for Celery's own connections know nothing of the gate.
"""

import logging
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Literal, NamedTuple

import redis
from django.db import Error as DatabaseError
from django.db import connection

from controlplane.datastores.redis_gate import gate
from controlplane.publishing import installation
from controlplane.publishing.installation import Identity
from routing.contract.redis_keys import INSTANCE_TTL_S

EVERY_S = 1.0
POLL_S = 0.25
UNKNOWN = (
    "Whose Redis this is cannot be told while the database does not answer, which knows the id of this "
    "installation: it is left alone until then."
)

logger = logging.getLogger(__name__)


class RedisRefusal(NamedTuple):
    """Why this Redis is not to be used."""

    words: str
    kind: Literal["foreign", "copy", "unknown"]


def look() -> RedisRefusal | None:
    """``None``: it may be used. Asks Redis alone, because it is called wherever a connection is made, within
    transactions and event loops too. Raises redis.RedisError."""
    bound, ours = installation.binding(), installation.known()
    if not bound.id:
        return _follows_another(ours)
    if ours is None:
        return RedisRefusal(UNKNOWN, "unknown")
    if bound.id == ours.id:
        is_copy = bound.is_copy_of(ours.id, ours.instance)
        return RedisRefusal(installation.COPY.format(bound.id), "copy") if is_copy else None
    return None if bound.is_followed_by(ours) else RedisRefusal(installation.foreign(bound.id), "foreign")


def _follows_another(ours: Identity | None) -> RedisRefusal | None:
    """Of a Redis that is bound to nobody: it is new, or was emptied while proxies route for somebody."""
    own = set() if ours is None else {ours.id, *ours.succeeded}
    others = installation.followed(installation.live_reports()).keys() - own
    if not others:
        return None
    if ours is None:
        return RedisRefusal(UNKNOWN, "unknown")
    return RedisRefusal(installation.followed_by(others), "foreign")


def refresh() -> RedisRefusal | None:
    """As :func:`look`, after the database was asked again where that may change it; the gate is as it says.
    Raises redis.RedisError."""
    refused = look()
    if refused is not None:
        _know()
        refused = look()
    gate.set(refused.words if refused else "")
    return refused


def _know() -> None:
    """Which installation this is, as the database says now."""
    try:
        installation.identity()
    except DatabaseError as error:
        logger.info("the installation id cannot be read: %s", error)
    finally:
        connection.close()


def watch(*, ends: bool = False) -> None:
    """From now on, until this process ends. ``ends``: it ends with status 1 on another installation's."""
    if gate.is_watched:
        return
    _know()
    gate.watch(lambda: refused.words if (refused := look()) else "")
    with suppress(redis.RedisError):
        refresh()
    threading.Thread(target=_watch, args=(ends,), name="redis-owner", daemon=True).start()


def _watch(ends: bool) -> None:
    since: float | None = None
    while True:
        time.sleep(EVERY_S)
        try:
            refused = refresh()
        except redis.RedisError:
            continue
        if refused is None or refused.kind == "unknown":
            since = None
            continue
        since = since or time.monotonic()
        # A copy that has just been stopped is waited for, as at the start.
        if ends and (refused.kind == "foreign" or time.monotonic() - since > INSTANCE_TTL_S + 1):
            end_refused(refused.words)


def wait_until_ours(meanwhile: Callable[[], None]) -> None:
    """Raises redis.RedisError."""
    while refresh() is not None:
        meanwhile()
        time.sleep(POLL_S)


def end_refused(words: str) -> None:
    """At once: an orderly end would return what is unfinished to a queue that is another installation's."""
    logger.critical("this process ends: %s", words)
    os._exit(1)
