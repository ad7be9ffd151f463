"""Prefix affinity: a prompt goes to a replica that already had its prefix, to use its KV cache again.

Theory. Model servers keep the KV cache of prompts for a while. Of a prompt whose prefix they have, they
compute only the rest. The hashes of each prompt's prefixes, block by block, are remembered at the replica
that it was sent to (:mod:`routing.balancing.replica.prefix_cache_index`), where all workers of the host see
them. What is new there is told to other hosts (:mod:`routing.shared.prefix_news`). A prompt goes

1. to the replica that has its longest prefix;
2. if that has more than ``load_bound`` times its fair share in flight, to the one with the longest prefix
   among those that have not. Shares are by learned speed, which starts from weight: ``1 / m``, as in
   ``least_expected_work``;
3. if none of these has any prefix of it, to one of those expected to be done soonest: within twice the least
   ``m · (n + 1)``.

Among several, the prompt's next block (the first that they do not have) draws one: rendezvous hashing. So
proxies that know nothing of each other send prompts with the same prefix to the same one of them. Wherever a
prompt goes, that replica has it from then on. The bound always wins. A prefix that all prompts share spreads
over as many replicas as its load takes. None of them takes more while it has ``2 · load_bound`` times what
the least loaded would have, so that no replica is idle beside long queues.

In a large pool not all replicas are looked at: only those next on a ring from the prompt's first block, and
from the first block that the best of these do not have.

Source: SGLang's cache-aware router (Zheng et al., "SGLang", 2024) for longest prefix with a bound on
imbalance; vLLM's automatic prefix caching and the prefix scorer of the Gateway API's inference extension for
hashes of blocks, each of all before it; Preble (Srivatsa et al., 2024) for placing prompts that share a
prefix.

Weakness: what replicas really keep is not known, only what they were sent. Where prompts have little in
common, this is least expected work with fewer choices.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from functools import partial
from random import Random
from typing import Annotated, ClassVar

import msgspec

from routing.balancing.affinity import Affinity
from routing.balancing.replica.prefix_cache_index import Candidates, PrefixCacheIndex
from routing.balancing.replica.state import Replica
from routing.balancing.strategies.base import AnswerMemory
from routing.balancing.strategies.bounded_load import BoundedLoad
from routing.balancing.strategies.expected_work_parameters import LeastExpectedWorkParameters
from routing.balancing.strategies.hash_ring import HashRing, points_of
from routing.balancing.strategies.least_expected_work import LeastExpectedWork
from routing.balancing.strategies.sampling import LARGE_POOL
from routing.shared.prefix_memory import PrefixMemory

_NEAR = 2.0
_MIXES, _ALL = 0x2545F491, (1 << 30) - 1
"""Of draws; numbers of 30 bits are the quickest to reckon with."""
_LOOKED_AT = 6
"""From one place of the ring on, in a large pool."""
_SEEDED_AT_ONCE = 100
_RENEWED_EVERY = 8
"""Of so many prompts one renews all of its hashes, also those that its replica knows: those in use are not
forgotten, and the others save the time. They are also told to other hosts once more: one may have come since,
or may have missed them."""


class PrefixAffinityParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    load_bound: Annotated[
        float,
        msgspec.Meta(
            ge=1.0,
            le=100.0,
            description="How many times its fair share of the requests in flight a replica may have before "
            "prompts whose prefix it has go elsewhere.",
        ),
    ] = 1.5
    block_bytes: Annotated[
        int,
        msgspec.Meta(
            ge=16,
            le=65536,
            description="Size of a prompt's first blocks, in bytes. Later blocks are up to an eighth of all "
            "before them. A shorter common prefix is not recognised.",
        ),
    ] = 256
    memory_mb: Annotated[
        int,
        msgspec.Meta(
            ge=1,
            le=4096,
            description="MiB that a host's workers together may use to remember the prompts sent to this "
            "fleet's replicas.",
        ),
    ] = 32
    kv_events_port: Annotated[
        int,
        msgspec.Meta(
            ge=0,
            le=65535,
            description="Port at which each replica's host publishes the KV events of vLLM (ZMQ). They tell "
            "when a cache is cleared, and how long prompts stay in it. 0: none.",
        ),
    ] = 0


class PrefixAffinity:
    """The replica that knows most of a prompt, if it has room; else where it is expected soonest."""

    name: ClassVar[str] = "prefix_affinity"
    sentence: ClassVar[str] = (
        "Sends a prompt to the replica that already had its longest prefix, unless that has more than its "
        "share in flight."
    )
    weighs_waiting: ClassVar[bool] = False
    Parameters: ClassVar[type[msgspec.Struct]] = PrefixAffinityParameters
    memory: AnswerMemory | None = None

    def __init__(self, parameters: msgspec.Struct) -> None:
        assert isinstance(parameters, PrefixAffinityParameters)
        self.affinity: Affinity | None = Affinity(block_bytes=parameters.block_bytes)
        self.home: Replica | None = None
        self._block_bytes = parameters.block_bytes
        self._memory_mb = parameters.memory_mb
        self._renewed_every = 1 if parameters.kv_events_port else _RENEWED_EVERY
        """Where columns age by KV events, what is not renewed in time is forgotten."""
        self._known: PrefixCacheIndex
        """What is known of each replica. Set before the first pick."""
        self._bound = BoundedLoad(parameters.load_bound, by_speed=True)
        self._of: Sequence[Replica] = ()
        self._knowledge: Candidates
        """What is known of these, in a small pool."""
        self._ring = HashRing()
        """Of a large pool only."""
        self._among: frozenset[Replica] = frozenset()
        self._limit = 0.0
        self._looked_at: list[Replica] = []
        """Of the last pick in a large pool."""
        self._key: tuple[int, ...] = ()
        self._length = 0
        self._turn = 0
        self._picked: Replica | None = None
        """Of the last pick: its key, and which replica knows how much of it, for :meth:`remember`."""
        self.pick = LeastExpectedWork(LeastExpectedWorkParameters()).pick
        """Of requests without a prompt."""

    def remember_in(self, memory: PrefixMemory, fleet: str, replicas: int) -> None:
        self._known = PrefixCacheIndex(memory, fleet, replicas, self._memory_mb)
        self._of = ()

    def prepare(self, members: Sequence[tuple[Replica, float]]) -> Generator[None, None, Callable[[], None]]:
        ring = yield from HashRing.built(members if len(members) > LARGE_POOL else ())
        for at in range(0, len(members), _SEEDED_AT_ONCE):
            self._introduce([replica for replica, _ in members[at : at + _SEEDED_AT_ONCE]])
            yield
        return partial(setattr, self, "_ring", ring)

    def pick_near(
        self, candidates: Sequence[Replica], work: float, now: float, rng: Random, key: tuple[int, ...]
    ) -> Replica:
        if candidates is not self._of:
            self._take(candidates)
        if len(candidates) > LARGE_POOL:
            limit = self._bound.per_share(candidates)
            candidates, length, holders = self._look_round(key)
            self.home = self._picked = chosen = drawn(holders, key, length) if length else None
            self._key, self._length = key, length
        else:
            length, holders = self._knowledge.longest(key)
            self.home = self._picked = chosen = drawn(holders, key, length) if length else None
            self._key, self._length = key, length
            if chosen is not None and not chosen.load:
                # Whatever the bound is, an idle one is below it.
                return chosen
            limit = self._bound.per_share(candidates)
        self._limit = limit
        if chosen is not None:
            if chosen.load * chosen.cost < limit:
                return chosen
            free = [replica for replica in holders if replica.load * replica.cost < limit]
            if free:
                self.home = self._picked = chosen = drawn(free, key, length)
                return chosen
        return self._within(candidates, limit, key, bool(length)) or self.pick(self._of, work, now, rng)

    def neighbours(
        self, key: tuple[int, ...], with_slot: Callable[[Iterable[Replica]], list[Replica]]
    ) -> list[Replica]:
        ring = self._ring
        return with_slot(self._looked_at) or ring.some_after(ring.after(key[0]), self._among, with_slot)

    def pick_among(
        self, found: Sequence[Replica], work: float, now: float, rng: Random, key: tuple[int, ...]
    ) -> Replica:
        of = self._of
        limit = self._limit if len(of) > LARGE_POOL else self._bound.per_share(of)
        return self._within(found, limit, key, True) or self.pick(found, work, now, rng)

    def _within(
        self, candidates: Sequence[Replica], limit: float, key: tuple[int, ...], known: bool
    ) -> Replica | None:
        """Of those within the bound the one that knows most, or a near best; ``None``: none is.
        ``known``: whether any of them may know anything of it."""
        free = [replica for replica in candidates if replica.load * replica.cost < limit]
        if known:
            length, holders = self._known.longest(free, key)
            if length:
                return drawn(holders, key, length)
        return drawn(near_best(free), key, 0) if free else None

    def remember(self, replica: Replica, key: tuple[int, ...]) -> None:
        if not replica.prefix_column:
            self._introduce([replica])
            if not replica.prefix_column:
                return
            self._of = ()
        known, self._turn = 0, self._turn + 1
        if replica is self._picked and key is self._key and self._turn % self._renewed_every:
            known = self._length
        new = self._known.note(replica.prefix_column, key, known)
        news = self._known.memory.news
        if news.open:
            renewed = () if self._turn % self._renewed_every else key[: len(key) - len(new)]
            news.add(self._known.fleet, self._block_bytes, replica.prefix_column, new, renewed)

    def learn(self, replica: Replica, hashes: Sequence[int]) -> None:
        if not replica.prefix_column:
            self._introduce([replica])
            self._of = ()
        if replica.prefix_column:
            self._known.note(replica.prefix_column, hashes)

    def _take(self, candidates: Sequence[Replica]) -> None:
        self._of = candidates
        self._introduce(candidates)
        if len(candidates) <= LARGE_POOL:
            self._knowledge = Candidates(self._known, candidates)
        else:
            self._among = frozenset(candidates)
            self._ring.take(candidates)

    def _look_round(self, key: tuple[int, ...]) -> tuple[Sequence[Replica], int, list[Replica]]:
        """Those of a large pool that may know more of it than others; how much is known, and by whom."""
        ring, among = self._ring, self._among
        looked_at: list[Replica] = []
        holders: list[Replica] = []
        length = 0
        while True:
            near = ring.next_ones(key[length], _LOOKED_AT, among)
            looked_at += near
            before, (length, holders) = length, self._known.longest(near, key, length, holders)
            if length in (before, len(key)):
                self._looked_at = looked_at
                return looked_at, length, holders

    def _introduce(self, replicas: Sequence[Replica]) -> None:
        for replica in replicas:
            if not replica.draw_seed:
                replica.draw_seed = points_of(replica.uid, 1)[0] & _ALL
        self._known.introduce(replicas)


def drawn(replicas: Sequence[Replica], key: tuple[int, ...], length: int) -> Replica:
    """One of those that know so much of it, the same for all prompts that go on alike."""
    if len(replicas) == 1:
        return replicas[0]
    place = key[min(length, len(key) - 1)] & _ALL
    chosen, highest = replicas[0], -1
    # A loop is quicker here than a list and its largest.
    for replica in replicas:
        draw = (place ^ replica.draw_seed) * _MIXES & _ALL
        if draw > highest:
            chosen, highest = replica, draw
    return chosen


def near_best(candidates: Sequence[Replica]) -> Sequence[Replica]:
    """Those where a request is expected to be done about as soon as where it is soonest."""
    scores = [replica.cost * (replica.load + 1) for replica in candidates]
    most = _NEAR * min(scores)
    return [replica for replica, score in zip(candidates, scores, strict=True) if score <= most]
