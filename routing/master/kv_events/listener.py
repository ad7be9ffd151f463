"""KV event listener (ZMQ subscriber): hears the replicas of fleets that name a port, for a host's workers.

The master listens, so no worker's event loop is held. What is heard of a replica acts on its column of the
prefix memory that the workers share:

- Its cache was emptied, or it was started again: the column is cleared at once.
- Blocks were dropped at a median age: the column ages as often. So a prompt is believed to be cached for one
  to two such times after it was last sent there.
- Nothing is heard for SILENT_S while the replica answers requests: what was derived is dropped, and the
  column ages no more, as if there were no events.

Addresses are judged by the address policy as those of requests are, each time that a name is looked up. What
cannot be listened to is said on ``/status`` and changes nothing else.
"""

import asyncio
import logging
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable
from operator import is_
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from routing.balancing.replica.prefix_cache_index import PrefixCacheIndex, spec_key
from routing.balancing.strategies.prefix_affinity import PrefixAffinity, PrefixAffinityParameters
from routing.contract import address_policy
from routing.contract.address_policy import DeniedAddress
from routing.contract.decode_errors import DECODE_ERRORS
from routing.contract.kv_events import sequence_of
from routing.contract.table import FleetSnapshot, ReplicaSpec
from routing.master.admin.kv_event_status import KvEventStatus
from routing.master.kv_events.cache_view import CacheView
from routing.master.table_cache import TableCache
from routing.shared.prefix_memory import PrefixMemory

log = logging.getLogger(__name__)

REVIEW_EVERY_S = 1.0
ANSWERS_EVERY_S = 5.0
SILENT_S = 30.0
SILENT_ANSWERS = 10
"""A few requests may be too short to fill a block."""
LOOKED_UP_EVERY_S = 30.0
LOOK_UP_LIMIT_S = 5.0
LEAST_AGE_S = 5.0
"""A column ages no more often."""
MOST_BYTES = 16 << 20
"""Of one message; a publisher that sends more is cut off."""
NOT_INSTALLED = "pyzmq is not installed"
SEVERAL = "several replicas of the fleet are at this host, which publishes at one port"


class Target(NamedTuple):
    """Whom to listen to, and what for."""

    fleet: str
    replicas: int
    """Of the fleet."""
    memory_mb: int
    spec: ReplicaSpec
    host: str
    port: int
    shares_host: bool


class _Heard:
    """One replica's state."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.view = CacheView()
        self.problem = ""
        """Why it cannot be listened to."""
        self.heard_at: float | None = None
        """Monotonic time of the last message; ``None``: none yet, or it has fallen silent."""
        self.silent = False
        self.answers = 0
        """Its responses up to the last message."""
        self.aged_at = 0.0
        self.task: asyncio.Task[None] | None = None


class KvEventListener:
    """Of one master. Nothing is imported or opened while no fleet names a port."""

    def __init__(
        self, memory: PrefixMemory, table: TableCache, answers: Callable[[], dict[str, int]]
    ) -> None:
        """``answers``: replica uid → responses that the workers have reported."""
        self._memory = memory
        self._table = table
        self._answers = answers
        self._heard: dict[str, _Heard] = {}
        """By uid."""
        self._context: Any = None
        self._known: dict[str, int] = {}
        """Answers when they were last asked for."""
        self._asked_at = -ANSWERS_EVERY_S
        self._followed: list[FleetSnapshot] = []

    def status(self) -> list[KvEventStatus]:
        """Of each replica whose fleet names a port."""
        return [self._status(heard, time.monotonic()) for heard in self._heard.values()]

    async def run(self) -> None:
        """Listen until cancelled."""
        try:
            while True:
                try:
                    self._follow()
                    if self._heard:
                        self._review(time.monotonic())
                except Exception:
                    log.exception("KV events could not be followed")
                await asyncio.sleep(REVIEW_EVERY_S)
        finally:
            for heard in self._heard.values():
                self._leave(heard)
            if self._context is not None:
                self._context.destroy(linger=0)

    # --- whom ----------------------------------------------------------------------------------------

    def _follow(self) -> None:
        snapshots = list(self._table.snapshots.values())
        if len(snapshots) == len(self._followed) and all(map(is_, snapshots, self._followed)):
            return
        wanted = {target.spec.uid: target for one in snapshots for target in targets(one)}
        for uid, heard in list(self._heard.items()):
            if uid not in wanted or address_of(wanted[uid]) != address_of(heard.target):
                self._leave(heard)
                del self._heard[uid]
        for uid, target in wanted.items():
            if uid in self._heard:
                self._heard[uid].target = target
            else:
                self._heard[uid] = heard = _Heard(target)
                self._listen(heard)
        self._followed = snapshots

    def _listen(self, heard: _Heard) -> None:
        if heard.target.shares_host:
            heard.problem = SEVERAL
        elif not self._has_context():
            heard.problem = NOT_INSTALLED
        else:
            heard.task = asyncio.get_running_loop().create_task(self._hear(heard))

    def _leave(self, heard: _Heard) -> None:
        if heard.task is not None:
            heard.task.cancel()

    def _has_context(self) -> bool:
        if self._context is None:
            try:
                import zmq.asyncio
            except ImportError as problem:
                log.error("KV events are not heard: %s (%s)", NOT_INSTALLED, problem)
                return False
            self._context = zmq.asyncio.Context()
        return True

    # --- what is heard -------------------------------------------------------------------------------

    async def _hear(self, heard: _Heard) -> None:
        """One replica, until cancelled."""
        target, said = heard.target, ""
        while True:
            try:
                address = await looked_up(target.host, target.port)
                heard.problem = ""
                await self._receive(heard, address)
            except Exception as problem:
                heard.problem = str(problem) or repr(problem)
                if heard.problem != said:
                    said = heard.problem
                    log.warning(
                        "KV events of replica %s of fleet %s are not heard: %s",
                        target.spec.name,
                        target.fleet,
                        said,
                    )
                await asyncio.sleep(LOOKED_UP_EVERY_S)

    async def _receive(self, heard: _Heard, address: str) -> None:
        """Until the name leads elsewhere."""
        import zmq

        subscriber = self._context.socket(zmq.SUB)
        try:
            subscriber.setsockopt(zmq.LINGER, 0)
            subscriber.setsockopt(zmq.IPV6, 1)
            subscriber.setsockopt(zmq.MAXMSGSIZE, MOST_BYTES)
            subscriber.setsockopt(zmq.RECONNECT_IVL, 100)
            subscriber.setsockopt(zmq.RECONNECT_IVL_MAX, 5000)
            subscriber.setsockopt(zmq.SUBSCRIBE, b"")
            port = heard.target.port
            subscriber.connect(f"tcp://[{address}]:{port}" if ":" in address else f"tcp://{address}:{port}")
            while True:
                if not await subscriber.poll(LOOKED_UP_EVERY_S * 1000):
                    if await self._has_moved(heard.target, address):
                        return
                    continue
                self._take(heard, await subscriber.recv_multipart())
                # A message that is there already is given without a turn of the event loop.
                await asyncio.sleep(0)
        finally:
            subscriber.close()

    async def _has_moved(self, target: Target, address: str) -> bool:
        """Raises DeniedAddress. Where the name cannot be looked up, its last address stays."""
        try:
            return await looked_up(target.host, target.port) != address
        except DeniedAddress:
            raise
        except OSError:
            return False

    def _take(self, heard: _Heard, parts: list[bytes]) -> None:
        try:
            _, number, payload = parts
            now = time.monotonic()
            if heard.view.take(sequence_of(number), payload, now):
                self._clear(heard.target)
        except (ValueError, *DECODE_ERRORS) as problem:
            heard.problem = f"a message could not be read: {problem}"
            return
        heard.problem, heard.silent, heard.heard_at = "", False, now
        heard.answers = self._known.get(heard.target.spec.uid, 0)

    # --- what follows ----------------------------------------------------------------------------------

    def _review(self, now: float) -> None:
        if now - self._asked_at >= ANSWERS_EVERY_S:
            self._asked_at, self._known = now, self._answers()
        for uid, heard in self._heard.items():
            if heard.heard_at is None:
                continue
            answered = self._known.get(uid, 0) - heard.answers
            if now - heard.heard_at > SILENT_S and answered >= SILENT_ANSWERS:
                log.warning(
                    "replica %s of fleet %s has published no KV events for %.0f s and %d responses",
                    heard.target.spec.name,
                    heard.target.fleet,
                    now - heard.heard_at,
                    answered,
                )
                heard.view.forget()
                heard.silent, heard.heard_at = True, None
                continue
            age_s = heard.view.block_age_s
            if age_s is None:
                heard.aged_at = now
            elif now - heard.aged_at >= max(LEAST_AGE_S, age_s):
                heard.aged_at = now
                index, column = self._column(heard.target)
                if column:
                    self._memory.age(column, index.places)

    def _clear(self, target: Target) -> None:
        index, column = self._column(target)
        if column:
            self._memory.clear(column, index.places)
            log.info(
                "replica %s of fleet %s has emptied its KV cache: prompts are forgotten",
                target.spec.name,
                target.fleet,
            )

    def _column(self, target: Target) -> tuple[PrefixCacheIndex, int]:
        """Asked for each time: it may have become another one."""
        index = PrefixCacheIndex(self._memory, target.fleet, target.replicas, target.memory_mb)
        (column,) = self._memory.claim(target.fleet, [spec_key(target.spec)], index.places)
        return index, column

    def _status(self, heard: _Heard, now: float) -> KvEventStatus:
        target, view = heard.target, heard.view
        state = "heard" if heard.heard_at is not None else "silent" if heard.silent else "waiting"
        return KvEventStatus(
            fleet=target.fleet,
            replica=target.spec.name,
            state=state,
            problem=heard.problem,
            heard_s_ago=None if heard.heard_at is None else now - heard.heard_at,
            tokens_held=view.tokens_held,
            block_age_s=view.block_age_s,
            clears=view.clears,
            missed=view.missed,
        )


def address_of(target: Target) -> tuple[str, int, str, bool]:
    return target.host, target.port, target.spec.url, target.shares_host


def targets(snapshot: FleetSnapshot) -> Iterable[Target]:
    """Whom a fleet's replicas publish to; none without a port."""
    policy = snapshot.policy
    port = policy.parameters.get("kv_events_port", 0)
    if policy.strategy != PrefixAffinity.name or not isinstance(port, int) or not port:
        return
    memory_mb = policy.parameters.get("memory_mb", PrefixAffinityParameters().memory_mb)
    assert isinstance(memory_mb, int)
    hosts = [urlsplit(spec.url).hostname or "" for spec in snapshot.replicas]
    counts = Counter(hosts)
    for host, spec in zip(hosts, snapshot.replicas, strict=True):
        shares = counts[host] > 1
        yield Target(snapshot.name, len(hosts), memory_mb, spec, host, port, shares)


async def looked_up(host: str, port: int) -> str:
    """The address to dial. Raises OSError, also where the address policy denies it."""
    policy = address_policy.in_force()
    policy.refuse_host(host, port)
    async with asyncio.timeout(LOOK_UP_LIMIT_S):
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = tuple(dict.fromkeys(str(entry[4][0]) for entry in found))
    return policy.permitted(host, addresses, port)[0]
