"""Bell of discovery (Redis pub/sub): who follows the sources hears at once that one is to be listed.

A ring that is lost costs the time until the next list.
"""

from typing import Literal, NamedTuple

import redis

CHANNEL = "sy:discovery:bell"

RingKind = Literal["changed", "resync", "trial"]
_KINDS: dict[str, RingKind] = {"changed": "changed", "resync": "resync", "trial": "trial"}


class Ring(NamedTuple):
    kind: RingKind
    """``changed``: a lease came, changed or was released; ``resync``: a person asks for a list; ``trial``:
    for a look at settings (:mod:`.trials`)."""
    of: str
    """A source's uid, or a trial's id."""


def message(kind: RingKind, of: str) -> str:
    return f"{kind} {of}"


def ring(client: "redis.Redis", kind: RingKind, of: str) -> int:
    """How many processes heard it. Raises redis.RedisError."""
    heard: int = client.publish(CHANNEL, message(kind, of))
    return heard


def heard(data: bytes) -> Ring | None:
    """``None``: another version's."""
    kind, _, of = data.decode(errors="replace").partition(" ")
    return Ring(_KINDS[kind], of) if kind in _KINDS else None
