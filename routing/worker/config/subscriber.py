"""Redis subscriber (config subscription): keeps a worker's routing table up to date, and acknowledges it.

The worker listens for notifications (pub/sub) and reads what they name. It also reads everything when it
connects, and on a slow timer, so a lost notification costs seconds. A missing key in Redis is ignored: an
empty Redis removes no fleet. While Redis is away, the table stays and requests go on.
"""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.client import PubSub
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from routing.contract import redis_keys, snapshot_chunks
from routing.contract.decode_errors import DECODE_ERRORS
from routing.contract.installation import objection
from routing.contract.table import (
    FleetSnapshot,
    Manifest,
    Version,
    decode_manifest,
    implausible,
)
from routing.contract.telemetry import Acknowledgement, encode_acknowledgement
from routing.worker.config.slices import in_slices
from routing.worker.config.table_applier import TableApplier

log = logging.getLogger(__name__)

RedisClient = Any
"""A ``redis.asyncio.Redis``. Not typed: its own types and those of ``types-redis`` contradict each other."""

REDIS_ERRORS = (RedisError, OSError, RuntimeError)
"""What the client raises while Redis is away. RuntimeError is what uvloop's transports raise on a write after
they were closed; the client does not translate it."""

READ_ALL_EVERY_S = 5.0
COMMAND_TIMEOUT_S = 1.0
READ_CHUNKED = 3
"""How often a snapshot in chunks is read anew because it was replaced meanwhile."""
FIRST_RETRY_S = 0.05
LAST_RETRY_S = 1.0


def connect(redis_url: str) -> RedisClient:
    """A client that fails within a second and does not retry by itself."""
    return Redis.from_url(
        redis_url,
        socket_timeout=COMMAND_TIMEOUT_S,
        socket_connect_timeout=COMMAND_TIMEOUT_S,
        retry=Retry(NoBackoff(), 0),
    )


class Subscriber:
    """Feeds one worker's table from Redis until cancelled."""

    def __init__(
        self,
        client: RedisClient,
        worker: str,
        applier: TableApplier,
        rng: random.Random,
        on_connected: Callable[[], Awaitable[None]],
    ) -> None:
        self.connected = False
        """Whether notifications are received at this moment."""
        self.confirmed_at: float | None = None
        """Monotonic time of the last complete comparison with Redis."""
        self._client = client
        self._worker = worker
        self._applier = applier
        self._rng = rng
        self._on_connected = on_connected

    async def run(self) -> None:
        """Connect, stay connected, and reconnect with a jittered backoff of at most a second."""
        delay, warned = FIRST_RETRY_S, False
        while True:
            try:
                await self._session()
            except REDIS_ERRORS as problem:
                if self.connected or not warned:
                    log.warning("Redis is away, the table at hand stays in use: %s", problem)
                    warned = True
            except Exception:
                log.exception("the subscriber failed and starts again")
            if self.connected:
                delay = FIRST_RETRY_S
            self.connected = False
            await asyncio.sleep(delay * self._rng.uniform(0.5, 1.0))
            delay = min(2 * delay, LAST_RETRY_S)

    async def _session(self) -> None:
        async with self._client.pubsub() as changes:
            await changes.subscribe(redis_keys.CHANGES_CHANNEL)
            await _confirmed(changes)
            await self._read_all()
            self.connected = True
            log.info("connected to Redis, manifest %s", self._applier.manifest_version)
            await self._on_connected()
            await self._listen(changes)

    async def _listen(self, changes: PubSub) -> None:
        heard = time.monotonic()
        read_at = heard + self._next_read()
        while True:
            message = await changes.get_message(timeout=max(0.0, read_at - time.monotonic()))
            now = time.monotonic()
            if message is not None:
                heard = now
                if message["type"] == "message":
                    await self._on_change(message["data"].decode("utf-8", "replace"))
            if now >= read_at:
                if now - heard > 2 * READ_ALL_EVERY_S:
                    raise ConnectionError("nothing heard on the subscribed connection, not even a pong")
                await changes.ping()
                await self._read_all()
                read_at = time.monotonic() + self._next_read()

    def _next_read(self) -> float:
        return READ_ALL_EVERY_S * self._rng.uniform(0.8, 1.2)

    async def _on_change(self, fleet: str) -> None:
        if fleet in self._applier.table.manifest.fleets:
            await self._read_fleet(fleet)
        else:
            await self._read_all()

    async def _read_fleet(self, name: str) -> None:
        await self._applier.apply(None, await self._fetch([name]))
        await self._acknowledge({redis_keys.fleet_acks_key(name): self._applier.fleet_acknowledgement(name)})

    async def _read_all(self) -> None:
        """Compare versions, fetch what is newer, apply it in one step, repeat lost acknowledgements."""
        pipe = self._client.pipeline(transaction=False)
        pipe.hget(redis_keys.MANIFEST, "body")
        pipe.hget(redis_keys.MANIFEST_ACKS, self._worker)
        body, manifest_ack = await pipe.execute()
        manifest = self._decoded_manifest(body)
        names = self._fleets_of_newest(manifest)
        pipe = self._client.pipeline(transaction=False)
        for name in names:
            pipe.hmget(redis_keys.fleet_key(name), "epoch", "version")
            pipe.hget(redis_keys.fleet_acks_key(name), self._worker)
        answers = await pipe.execute()
        stored = zip(names, answers[0::2], strict=True)
        newer = [name for name, version in stored if self._is_newer(name, version)]
        snapshots = await self._fetch(newer)
        await self._applier.apply(manifest, snapshots)
        stored_acks = {redis_keys.MANIFEST_ACKS: manifest_ack}
        current = {redis_keys.MANIFEST_ACKS: self._applier.manifest_acknowledgement()}
        for name, ack in zip(names, answers[1::2], strict=True):
            stored_acks[redis_keys.fleet_acks_key(name)] = ack
            current[redis_keys.fleet_acks_key(name)] = self._applier.fleet_acknowledgement(name)
        await self._acknowledge(
            {key: ack for key, ack in current.items() if stored_acks[key] != encode_acknowledgement(ack)}
        )
        self.confirmed_at = time.monotonic()

    def _fleets_of_newest(self, manifest: Manifest | None) -> list[str]:
        held = self._applier.table.manifest
        if manifest is None or Version(manifest.epoch, manifest.version) < self._applier.manifest_version:
            return sorted(held.fleets)
        return sorted(manifest.fleets)

    def _is_newer(self, name: str, stored: list[bytes | None]) -> bool:
        epoch, number = stored
        if epoch is None or number is None:
            self._applier.nothing_newer(name)
            return False
        try:
            version = Version(int(epoch), int(number))
        except ValueError:
            self._applier.refuse_fleet(name, f"the version {epoch!r}:{number!r} in Redis is not a number")
            return False
        if why := implausible(version):
            self._applier.refuse_fleet(name, why)
            return False
        newer = version > self._applier.fleet_version(name)
        if not newer:
            self._applier.nothing_newer(name)
        return newer

    async def _fetch(self, names: list[str]) -> list[FleetSnapshot]:
        if not names:
            return []
        pipe = self._client.pipeline(transaction=False)
        for name in names:
            pipe.hmget(redis_keys.fleet_key(name), "body", snapshot_chunks.CHUNKS)
        answers = await pipe.execute()
        found = []
        for name, (body, chunks) in zip(names, answers, strict=True):
            if chunks is None:
                snapshot = await self._decoded_snapshot(name, body)
            else:
                snapshot = await self._read_chunked(name)
            if snapshot is not None:
                found.append(snapshot)
        return found

    async def _read_chunked(self, name: str) -> FleetSnapshot | None:
        """A large snapshot, chunk by chunk: between two of them requests are served. ``None``: it is refused;
        or it was written anew each time that it was read, and is read with the next notification."""
        try:
            for _ in range(READ_CHUNKED):
                snapshot = await self._chunks_of_one_version(name)
                if snapshot is not None:
                    return self._of_fleet(name, snapshot)
        except (ValueError, *DECODE_ERRORS) as problem:
            self._applier.refuse_fleet(name, str(problem))
        return None

    async def _chunks_of_one_version(self, name: str) -> FleetSnapshot | None:
        """``None``: it was written anew meanwhile. Raises ValueError, and msgspec's errors."""
        key, version = redis_keys.fleet_key(name), ("epoch", "version")
        epoch, number, body, stored = await self._client.hmget(key, *version, "body", snapshot_chunks.CHUNKS)
        count = snapshot_chunks.number_of_chunks(stored)
        if not count:
            return None if body is None else await in_slices(snapshot_chunks.from_json_in_steps(body))
        chunks = []
        for at in range(count):
            *now, chunk = await self._client.hmget(key, *version, snapshot_chunks.chunk_field(at))
            if now != [epoch, number]:
                return None
            chunks.append(snapshot_chunks.decode_chunk(chunk or b""))
        return snapshot_chunks.joined(body or b"", chunks)

    def _decoded_manifest(self, body: bytes | None) -> Manifest | None:
        """``None``: there is none, or none that may be applied."""
        if body is None:
            self._applier.nothing_newer()
            return None
        try:
            manifest = decode_manifest(body)
        except DECODE_ERRORS as problem:
            self._applier.refuse_manifest(str(problem))
            return None
        if why := objection(self._applier.table.manifest, manifest):
            # Its fleets are not even read: those of the table in use are kept up to date instead.
            self._applier.refuse_manifest(f"manifest, version {manifest.epoch}:{manifest.version}: {why}")
            return None
        return manifest

    async def _decoded_snapshot(self, name: str, body: bytes | None) -> FleetSnapshot | None:
        if body is None:
            return None
        try:
            snapshot = await in_slices(snapshot_chunks.from_json_in_steps(body))
        except DECODE_ERRORS as problem:
            self._applier.refuse_fleet(name, str(problem))
            return None
        return self._of_fleet(name, snapshot)

    def _of_fleet(self, name: str, snapshot: FleetSnapshot) -> FleetSnapshot | None:
        if snapshot.name != name:
            self._applier.refuse_fleet(name, f"the snapshot stored for it is named {snapshot.name}")
            return None
        return snapshot

    async def _acknowledge(self, acks: dict[str, Acknowledgement]) -> None:
        """Store acknowledgements: key of the hash → this worker's acknowledgement."""
        if not acks:
            return
        pipe = self._client.pipeline(transaction=False)
        for key, ack in acks.items():
            pipe.hset(key, self._worker, encode_acknowledgement(ack).decode())
        await pipe.execute()


async def _confirmed(changes: PubSub) -> None:
    """Wait until Redis confirms the subscription, so that no notification is lost before the first read."""
    message = await changes.get_message(timeout=COMMAND_TIMEOUT_S)
    if message is None or message["type"] != "subscribe":
        raise ConnectionError("Redis did not confirm the subscription")
