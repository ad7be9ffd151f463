"""Control plane client of a worker: reads the routing table from Redis, and writes telemetry to it.

Importing the Redis client takes several times as long as the rest of a worker. So this module is imported in
the background, while a successor already serves from the master's cached table.
"""

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Awaitable, Callable

from routing.contract import redis_keys
from routing.worker.config.prefix_exchange import PrefixExchange
from routing.worker.config.slices import in_slices
from routing.worker.config.sticky_redis import RedisStickyStore
from routing.worker.config.subscriber import REDIS_ERRORS, Subscriber, connect
from routing.worker.config.table_applier import TableApplier

log = logging.getLogger(__name__)


class ControlPlaneClient:
    """The table comes by a :class:`routing.worker.config.subscriber.Subscriber`."""

    def __init__(
        self,
        redis_url: str,
        worker: str,
        applier: TableApplier,
        rng: random.Random,
        on_connected: Callable[[], Awaitable[None]],
    ) -> None:
        """``on_connected`` is awaited after each (new) connection; it should report at once."""
        self._worker = worker
        self._proxy = worker.rpartition("/")[0]
        self._applier = applier
        self._client = connect(redis_url)
        self._script = self._client.register_script(redis_keys.REPORT_OF_PROXY)
        self._subscriber = Subscriber(self._client, worker, applier, rng, on_connected)
        self.sticky_store = RedisStickyStore(self._client, lambda: self.connected)
        """Sticky ids, shared with the proxies of other hosts."""
        self._prefixes = PrefixExchange(self._client, applier.table, lambda: self.connected)

    @property
    def connected(self) -> bool:
        return self._subscriber.connected

    @property
    def confirmed_at(self) -> float | None:
        return self._subscriber.confirmed_at

    async def run(self) -> None:
        """Follow the table, and exchange prompts' prefixes with other hosts, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._subscriber.run())
            tasks.create_task(self._prefixes.tell())
            tasks.create_task(self._prefixes.hear())

    async def report(self, report: bytes, draining: bool) -> bool:
        """Store one report, if Redis can be reached, and read how many proxies share the limits. Returns
        whether this proxy's share has changed. Never raises because of Redis."""
        if not self.connected:
            return False
        keys = [redis_keys.WORKERS, redis_keys.REPORTS, redis_keys.PROXIES]
        try:
            answer = await self._script(
                keys=keys, args=[self._worker, report, self._proxy, "draining" if draining else ""]
            )
        except REDIS_ERRORS as problem:
            log.debug("a report did not reach Redis: %s", problem)
            return False
        await self._read_load_reports()
        proxies = sorted(name.decode("utf-8", "replace") for name in answer)
        # A draining proxy is not in the list, and keeps its share.
        if self._proxy not in proxies:
            return False
        return self._applier.table.quota_share.update(
            proxies.index(self._proxy), len(proxies), time.monotonic()
        )

    async def _read_load_reports(self) -> None:
        """Read the replicas' load reports, and hand them to the table."""
        pipe = self._client.pipeline(transaction=False)
        pipe.time()
        pipe.hgetall(redis_keys.LOADS)
        try:
            (seconds, microseconds), stored = await pipe.execute()
        except REDIS_ERRORS as problem:
            log.debug("what replicas say of their load was not read: %s", problem)
            return
        if stored:
            now_ms = int(seconds) * 1000 + int(microseconds) // 1000
            await in_slices(self._applier.apply_load_reports(stored, now_ms))

    async def leave(self) -> None:
        """Take this worker off the lists of live workers, if Redis can be reached."""
        pipe = self._client.pipeline(transaction=False)
        pipe.zrem(redis_keys.WORKERS, self._worker)
        pipe.hdel(redis_keys.REPORTS, self._worker)
        pipe.hdel(redis_keys.MANIFEST_ACKS, self._worker)
        for name in self._applier.table.fleets:
            pipe.hdel(redis_keys.fleet_acks_key(name), self._worker)
        with contextlib.suppress(*REDIS_ERRORS):
            await pipe.execute()
