"""Consistent hashing with bounded loads: requests of one session go to one replica (sticky sessions).

Theory. The session's key has its place on a ring (:mod:`routing.balancing.strategies.hash_ring`). The replica
whose point is nearest serves all requests of the session, so that what it keeps of it (a cache, an adapter, a
warm file) is used again. A replica with more than ``load_bound`` times its fair share in flight is passed
over for the next one on the ring (:mod:`routing.balancing.strategies.bounded_load`). For one key that is
always the same, so that a session that overflows still has few homes. Both ring and bound go by weight. Slow
start lowers only the bound: until a new replica may take its keys, they stay where they were. Nothing is
remembered, so all workers and proxies agree.

A request without a key goes where it is expected to be done soonest, as by ``least_expected_work``.

Source: Mirrokni, Thorup and Zadimoghaddam (arXiv 1608.01350), as in HAProxy's ``hash-balance-factor``.

Weakness: a bound that is too tight sends sessions away for the smallest imbalance. With few requests in
flight, a session's second concurrent request overflows at once. A bound that is too loose lets a popular
session overload its home.
"""

import re
from collections.abc import Callable, Generator, Iterable, Sequence
from functools import partial
from random import Random
from typing import Annotated, ClassVar

import msgspec

from routing.balancing.affinity import Affinity
from routing.balancing.replica.state import Replica
from routing.balancing.strategies.base import AnswerMemory
from routing.balancing.strategies.bounded_load import BoundedLoad
from routing.balancing.strategies.expected_work_parameters import LeastExpectedWorkParameters
from routing.balancing.strategies.hash_ring import HashRing
from routing.balancing.strategies.least_expected_work import LeastExpectedWork

_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")
"""What RFC 9110 §5.6.2 lets the name of a field be, and RFC 6265 §4.1.1 that of a cookie."""


class ConsistentHashParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    load_bound: Annotated[
        float,
        msgspec.Meta(
            ge=1.0,
            le=100.0,
            description="How many times its fair share of the requests in flight a replica may have before "
            "sessions overflow to the next one.",
        ),
    ] = 1.25
    header: Annotated[
        str,
        msgspec.Meta(
            description="Name of the header field whose value is the session's key; empty: none is read."
        ),
    ] = "x-session-id"
    cookie: Annotated[
        str,
        msgspec.Meta(
            description="Name of the cookie whose value is the key of requests without that header field; "
            "empty: none is read."
        ),
    ] = ""
    user: Annotated[
        bool,
        msgspec.Meta(
            description="Whether requests with neither take the key from their JSON body: "
            "prompt_cache_key, user, safety_identifier or metadata.user_id."
        ),
    ] = True


class ConsistentHash:
    """A session's own replica, or the next on the ring while that has too much."""

    name: ClassVar[str] = "consistent_hash"
    sentence: ClassVar[str] = (
        "Sends requests of one session to the same replica, unless that has more than its share in flight."
    )
    weighs_waiting: ClassVar[bool] = False
    Parameters: ClassVar[type[msgspec.Struct]] = ConsistentHashParameters
    memory: AnswerMemory | None = None

    def __init__(self, parameters: msgspec.Struct) -> None:
        assert isinstance(parameters, ConsistentHashParameters)
        self.affinity: Affinity | None = session_affinity(
            self.name, parameters.header, parameters.cookie, parameters.user
        )
        self.home: Replica | None = None
        self._bound = BoundedLoad(parameters.load_bound)
        self._ring = HashRing()
        self._of: Sequence[Replica] = ()
        self._among: frozenset[Replica] = frozenset()
        self._limit = 0.0
        self._point = 0
        """Of the last pick: its bound, and where on the ring its key is."""
        self.pick = LeastExpectedWork(LeastExpectedWorkParameters()).pick
        """Of requests without a key."""

    def prepare(self, members: Sequence[tuple[Replica, float]]) -> Generator[None, None, Callable[[], None]]:
        ring = yield from HashRing.built(members)
        return partial(setattr, self, "_ring", ring)

    def pick_near(
        self, candidates: Sequence[Replica], work: float, now: float, rng: Random, key: tuple[int, ...]
    ) -> Replica:
        if candidates is not self._of:
            self._of = candidates
            self._among = frozenset(candidates)
            self._ring.take(candidates)
        self._limit = limit = self._bound.per_share(candidates)
        self._point = point = self._ring.nearest(key[0], self._among)
        self.home = home = self._ring.owner(point)
        if home.load < limit * home.share:
            return home
        for replica in self._ring.onward(point, self._among):
            if replica.load < limit * replica.share:
                return replica
        # The sum of loads was not the newest.
        return home

    def neighbours(
        self, key: tuple[int, ...], with_slot: Callable[[Iterable[Replica]], list[Replica]]
    ) -> list[Replica]:
        return self._ring.some_after(self._point, self._among, with_slot)

    def pick_among(
        self, found: Sequence[Replica], work: float, now: float, rng: Random, key: tuple[int, ...]
    ) -> Replica:
        limit = self._limit
        below = [replica for replica in found if replica.load < limit * replica.share]
        return next(self._ring.onward(self._point, frozenset(below or found)))

    def remember(self, replica: Replica, key: tuple[int, ...]) -> None:
        """The ring knows it all."""


def session_affinity(strategy: str, header: str, cookie: str, user: bool) -> Affinity:
    """Where the session key is read (sticky sessions). Raises ValueError that names the parameter and says
    what would be right."""
    for name, value, words in (
        ("header", header, "the name of a header field"),
        ("cookie", cookie, "the name of a cookie"),
    ):
        if value and not _TOKEN.fullmatch(value):
            raise ValueError(
                f"parameter {name!r} of {strategy} must be {words} (letters, digits and - _ . are usual), "
                f"or empty, not {value!r}"
            )
    return Affinity(header=header.lower().encode("ascii"), cookie=cookie.encode("ascii"), user=user)
