"""Redis refusals: it answers, but with an error of its own (OOM, READONLY, MISCONF, NOAUTH), in words.

The words name no address and no account: anybody may read them.
"""

from typing import NamedTuple

import redis

WRITE_CHECK_KEY = "sy:write-check"
"""Never there: it is written only where it is."""


class RefusedWrite(NamedTuple):
    """Why Redis does not do what it is asked."""

    state: str
    """One word, for the system page."""
    words: str
    """What follows “Redis is”."""
    cure: str


_REFUSALS: tuple[tuple[str, tuple[type[redis.RedisError], ...], RefusedWrite], ...] = (
    (
        "OOM",
        (redis.exceptions.OutOfMemoryError,),
        RefusedWrite(
            "full",
            "full (maxmemory) and refuses writes",
            "Raise maxmemory, or use a Redis of its own: Switchyard's keys must not be evicted.",
        ),
    ),
    (
        "READONLY",
        (redis.exceptions.ReadOnlyError,),
        RefusedWrite(
            "read-only",
            "a read-only replica and refuses writes",
            "Correct SWITCHYARD_REDIS_URL, which must name the primary, or promote this: REPLICAOF NO ONE.",
        ),
    ),
    (
        "MISCONF",
        (),
        RefusedWrite(
            "unsaved",
            "unable to save to its disk and refuses writes (MISCONF)",
            "Free space on its disk, and see its log.",
        ),
    ),
    (
        "NOAUTH",
        (redis.AuthenticationError,),
        RefusedWrite(
            "refused", "refusing the password (NOAUTH)", "Correct the password in SWITCHYARD_REDIS_URL."
        ),
    ),
    (
        "NOPERM",
        (redis.exceptions.NoPermissionError,),
        RefusedWrite(
            "refused",
            "refusing what its account may not do (NOPERM)",
            "Give the account of SWITCHYARD_REDIS_URL all commands.",
        ),
    ),
)


def refusal(error: BaseException) -> RefusedWrite | None:
    """``None``: Redis is away, or the error says nothing of the kind."""
    text = str(error)
    for code, kinds, found in _REFUSALS:
        # Within a script the code is a word of the text, and the class that of any error.
        if isinstance(error, kinds) or (isinstance(error, redis.ResponseError) and code in text):
            return found
    return None


def refused_write(client: "redis.Redis") -> RefusedWrite | None:
    """Why this Redis, which answers, takes no writes; ``None``: it takes them. Raises redis.RedisError."""
    try:
        # Checked like any write, also for memory; but with XX it stores nothing.
        client.set(WRITE_CHECK_KEY, b"", xx=True)
    except redis.RedisError as error:
        if found := refusal(error):
            return found
        raise
    return None
