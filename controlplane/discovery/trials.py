"""Trial of a source: it is listed once, where it would be followed, and nothing is written.

The conductor that leads looks, for its host has the files, the servers' addresses and the cluster's token. It
is asked by way of Redis.
"""

import time
import uuid
from typing import Any

import msgspec
import redis

from controlplane.discovery import bell
from routing.contract.decode_errors import DECODE_ERRORS
from routing.contract.fleet_file import ReplicaEntry

WITHIN_S = 6.0
"""Of the look itself."""
ANSWER_WITHIN_S = 8.0
_POLL_S = 0.05
_KEPT_S = 30
_ASKED = "sy:discovery:trial:"
_ANSWERED = "sy:discovery:trial-answer:"


class SourceTrial(msgspec.Struct, frozen=True):
    """What is to be looked at: checked settings, with their kind."""

    kind: str
    settings: dict[str, Any]


class TrialListing(msgspec.Struct, frozen=True):
    """What was seen."""

    took_s: float
    error: str = ""
    """Why it does not answer, in words; empty: it does."""
    entries: list[ReplicaEntry] = []
    leaving: list[str] = []
    """Names that it says go."""
    note: str = ""


class NobodyLooks(Exception):
    """No conductor leads, or it does not answer in time."""


def ask(client: "redis.Redis", trial: SourceTrial) -> TrialListing:
    """Waits for it. Raises NobodyLooks, redis.RedisError."""
    id_ = uuid.uuid4().hex
    client.set(_ASKED + id_, msgspec.json.encode(trial), ex=_KEPT_S)
    if not bell.ring(client, "trial", id_):
        raise NobodyLooks
    ends = time.monotonic() + ANSWER_WITHIN_S
    while time.monotonic() < ends:
        if data := client.getdel(_ANSWERED + id_):
            return msgspec.json.decode(data, type=TrialListing)
        time.sleep(_POLL_S)
    raise NobodyLooks


def take(client: "redis.Redis", id_: str) -> SourceTrial | None:
    """``None``: another process has taken it. Raises redis.RedisError."""
    try:
        return msgspec.json.decode(client.getdel(_ASKED + id_) or b"", type=SourceTrial)
    except DECODE_ERRORS:
        return None


def answer(client: "redis.Redis", id_: str, listing: TrialListing) -> None:
    """Raises redis.RedisError."""
    client.set(_ANSWERED + id_, msgspec.json.encode(listing), ex=_KEPT_S)
