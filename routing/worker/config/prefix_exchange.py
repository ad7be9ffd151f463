"""Prefix exchange (gossip over pub/sub): hosts tell each other which prompts' prefixes replicas were sent.

Each worker tells what it has newly noted, twice a second and bounded; of a host's workers the one with the
lowest number hears what other hosts tell, and notes it in the memory that all of them share. That happens
only while several proxies are live and a fleet remembers prompts. Nothing waits for it: while Redis is away,
or beyond the bounds, other hosts know less, and their prompts go where this host's would not.

What is heard is hints of the same kind as those of the own host. A message that cannot be read is counted and
ignored, as is what is of fleets, replicas or blocks that are not in the table.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Generator, Iterable

from redis.asyncio.client import PubSub
from redis.exceptions import NoPermissionError

from routing.balancing.pool.pool import Pool
from routing.balancing.pool.table import Table
from routing.balancing.replica.prefix_cache_index import column_key
from routing.balancing.replica.state import Replica
from routing.balancing.strategies.base import PrefixStrategy
from routing.contract import prefix_digest, redis_keys
from routing.contract.decode_errors import DECODE_ERRORS
from routing.contract.prefix_digest import FORMAT, FleetPart, PrefixDigest
from routing.shared.prefix_memory import PrefixMemory, digest
from routing.shared.prefix_news import Note
from routing.worker.config.slices import in_slices
from routing.worker.config.subscriber import REDIS_ERRORS, RedisClient

log = logging.getLogger(__name__)

EVERY_S = 0.5
TOLD_PER_S = 8192
"""Hashes a second that a host tells: 64 KiB/s."""
HEARD_PER_S = 32_768
"""Hashes a second that a host notes of all others together: 5 to 13 ms of one worker's CPU time. Many hosts
tell so much less each."""
LEAST_ROOM = 128
"""Hashes that each worker may tell at once, however many there are."""
AT_ONCE = 500
"""Hashes that are noted at once, and replicas that are listed: half a millisecond, 3 at pages never used."""
PING_EVERY_S = 5.0
SILENT_S = 12.0
"""Without even a pong for so long, the connection is lost."""
NOT_ALLOWED = (
    "Redis does not allow the exchange of prompts' prefixes with other hosts (%s): make its users anew by "
    "deploy/redis/users.sh"
)


class PrefixExchange:
    """Of one worker."""

    def __init__(self, client: RedisClient, table: Table, is_connected: Callable[[], bool]) -> None:
        self._client = client
        self._table = table
        self._is_connected = is_connected
        self._listed: dict[str, tuple[Pool, int, dict[bytes, Replica]]] = {}
        """Fleet → its pool, of which table, and its replicas by digest."""
        self._allowance = 0.0
        self._allowed_at = 0.0
        self._warned = ""

    async def tell(self) -> None:
        """Tell other hosts what is new, until cancelled."""
        while True:
            await asyncio.sleep(EVERY_S)
            memory = self._memory()
            if memory is not None:
                notes = memory.news.take()
                memory.news.begin(self._room())
                if notes:
                    await self._send(memory, notes)
            elif self._table.prefixes is not None:
                self._table.prefixes.news.stop()

    async def hear(self) -> None:
        """Note what other hosts tell, until cancelled."""
        while True:
            if self._hears():
                try:
                    await self._session()
                except REDIS_ERRORS as problem:
                    self._warn(problem)
                except Exception:
                    log.exception("what other hosts tell of prompts could not be noted")
            await asyncio.sleep(EVERY_S)

    # --- to other hosts ----------------------------------------------------------------------------

    async def _send(self, memory: PrefixMemory, notes: list[Note]) -> None:
        hashes = sum(len(note.hashes) for note in notes)
        message = prefix_digest.encode(digest_of(memory, notes))
        try:
            await self._client.publish(redis_keys.PREFIXES_CHANNEL, message)
            memory.news.sent += hashes
        except REDIS_ERRORS as problem:
            memory.news.left_out += hashes
            self._warn(problem)

    def _room(self) -> int:
        """For the hashes of one message."""
        others = max(1, self._table.quota_share.count - 1)
        shared = self._table.shared
        workers = 1 if shared is None else 1 + len(shared.siblings)
        most = min(TOLD_PER_S, HEARD_PER_S // others) * EVERY_S / workers
        return max(LEAST_ROOM, int(most))

    # --- from other hosts --------------------------------------------------------------------------

    async def _session(self) -> None:
        async with self._client.pubsub() as told:
            await told.subscribe(redis_keys.PREFIXES_CHANNEL)
            await self._listen(told)

    async def _listen(self, told: PubSub) -> None:
        heard = asked = time.monotonic()
        while self._hears():
            message = await told.get_message(timeout=EVERY_S)
            now = time.monotonic()
            if message is not None:
                heard = now
                if message["type"] == "message":
                    await self.apply(message["data"], now)
            elif now - heard > SILENT_S:
                raise ConnectionError("nothing heard on the subscribed connection, not even a pong")
            if now - asked > PING_EVERY_S:
                asked = now
                await told.ping()

    async def apply(self, message: bytes, now: float) -> None:
        """Note what one message tells, in slices. Never raises for a bad one."""
        memory = self._memory()
        if memory is None:
            return
        try:
            told = prefix_digest.decode(message)
        except (ValueError, *DECODE_ERRORS) as problem:
            memory.news.refused += 1
            log.debug("a message about prompts' prefixes was refused: %s", problem)
            return
        if told.origin == memory.identity:
            return
        hashes = sum(len(words) for part in told.fleets for _, words in part.replicas)
        hashes //= prefix_digest.HASH_BYTES
        if self._is_allowed(hashes, now):
            await in_slices(self._noted(memory, told.fleets))
        else:
            memory.news.left_out += hashes

    def _is_allowed(self, hashes: int, now: float) -> bool:
        passed = now - self._allowed_at
        self._allowance = min(HEARD_PER_S, self._allowance + passed * HEARD_PER_S)
        self._allowed_at = now
        if hashes > self._allowance:
            return False
        self._allowance -= hashes
        return True

    def _noted(self, memory: PrefixMemory, parts: Iterable[FleetPart]) -> Generator[None, None, None]:
        for part in parts:
            pool = self._table.fleets.get(part.fleet)
            strategy = None if pool is None else pool.prefix_strategy
            if pool is None or strategy is None or block_bytes(strategy) != part.block_bytes:
                continue
            listed = yield from self._replicas_of(pool)
            done = 0
            for name, words in part.replicas:
                replica = listed.get(name)
                if replica is None:
                    continue
                hashes = prefix_digest.unpacked(words)
                for at in range(0, len(hashes), AT_ONCE):
                    strategy.learn(replica, hashes[at : at + AT_ONCE])
                    done += 1 + min(AT_ONCE, len(hashes) - at)
                    if done >= AT_ONCE:
                        done = 0
                        yield
                memory.news.applied += len(hashes)

    def _replicas_of(self, pool: Pool) -> Generator[None, None, dict[bytes, Replica]]:
        """By digest; made anew for each table."""
        known = self._listed.get(pool.name)
        if known is not None and known[0] is pool and known[1] == pool.swaps:
            return known[2]
        swaps, replicas, listed = pool.swaps, pool.replicas, dict[bytes, Replica]()
        for at, replica in enumerate(replicas, 1):
            listed[digest(column_key(replica))] = replica
            if at % AT_ONCE == 0:
                yield
        self._listed = {
            name: kept for name, kept in self._listed.items() if self._table.fleets.get(name) is kept[0]
        }
        self._listed[pool.name] = pool, swaps, listed
        return listed

    # --- when ----------------------------------------------------------------------------------------

    def _memory(self) -> PrefixMemory | None:
        """``None``: there is nothing to exchange, or nobody to exchange it with."""
        if self._table.quota_share.count < 2 or not self._is_connected():
            return None
        if all(pool.prefix_strategy is None for pool in self._table.fleets.values()):
            return None
        return self._table.prefixes

    def _hears(self) -> bool:
        """Whether this is the worker of its host that hears for all."""
        own = None if (shared := self._table.shared) is None else shared.worker
        if shared is not None and own is not None and any(sibling < own for sibling in shared.siblings):
            return False
        return self._memory() is not None

    def _warn(self, problem: Exception) -> None:
        """Once, until it is another one. That Redis is away, the subscriber says."""
        if isinstance(problem, NoPermissionError) and str(problem) != self._warned:
            self._warned = str(problem)
            log.warning(NOT_ALLOWED, problem)
        else:
            log.debug("prompts' prefixes were not exchanged: %s", problem)


def block_bytes(strategy: PrefixStrategy) -> int:
    return 0 if strategy.affinity is None else strategy.affinity.block_bytes


def digest_of(memory: PrefixMemory, notes: Iterable[Note]) -> PrefixDigest:
    """The message of these notes: by fleet and replica, in their order."""
    fleets: dict[tuple[str, int], dict[int, list[int]]] = {}
    for note in notes:
        columns = fleets.setdefault((note.fleet, note.block_bytes), {})
        columns.setdefault(note.column, []).extend(note.hashes)
    parts = [
        FleetPart(
            fleet,
            size,
            [(memory.digest_at(column), prefix_digest.packed(hashes)) for column, hashes in columns.items()],
        )
        for (fleet, size), columns in fleets.items()
    ]
    return PrefixDigest(FORMAT, memory.identity, parts)
