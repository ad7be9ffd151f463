"""The pool as a library: balance calls inside one process, without a proxy.

::

    balancer = Balancer(["http://10.0.0.1:8000", "http://10.0.0.2:8000"])
    with balancer.pick(work=120) as replica:
        answer = session.post(f"{replica.spec.url}/v1/embeddings", json=request)

The same strategies, ejection, slow start, panic and queue as in the proxy. May be used by any number of
threads and event loops at once; a lock is held for the microseconds of a pick or a settlement, never
while the call runs or waits.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from random import Random
from types import TracebackType
from uuid import NAMESPACE_URL, uuid5

import msgspec

from routing.balancing.attempt.outcome import Outcome
from routing.balancing.pool.library_calls import LOOK_EVERY_S, LibraryCall, ThreadSafePool
from routing.balancing.pool.pool import Pool, ReplicaExplanation
from routing.balancing.replica.state import Replica
from routing.contract.addresses import normalise_url, parse_base_url
from routing.contract.policy import Policy, StrategyParameter
from routing.contract.table import FleetSnapshot, ReplicaSpec


class NoReplica(Exception):
    """Nobody could be picked; the text says why, replica by replica."""


class Pick:
    """A pick of :meth:`Balancer.pick`: ``with`` or ``async with`` makes it, once, and its end settles it."""

    def __init__(self, call: LibraryCall, timeout_s: float) -> None:
        self._call = call
        self._timeout_s = timeout_s
        self._entered = False

    def __enter__(self) -> Replica:
        self._begin()
        if self._call.waits:
            self._wait()
        return self._replica()

    async def __aenter__(self) -> Replica:
        self._begin()
        if self._call.waits:
            await self._wait_async()
        return self._replica()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._call.end(_outcome_of(error))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._call.end(_outcome_of(error))

    def _begin(self) -> None:
        if self._entered:
            raise RuntimeError("a pick is used once; pick again for the next call")
        self._entered = True
        self._call.begin(self._timeout_s)

    def _replica(self) -> Replica:
        call = self._call
        if call.attempt is None:
            raise NoReplica("nobody was picked" if call.rejection is None else call.rejection.message)
        return call.attempt.replica

    def _wait(self) -> None:
        call = self._call
        if _in_event_loop():
            call.cancel()
            raise RuntimeError("to wait here would block the event loop: use `async with`, or timeout_s=0")
        decided = threading.Event()
        call.on_decided = decided.set
        try:
            while call.waits:
                decided.wait(LOOK_EVERY_S)
                call.look()
        except BaseException:
            call.cancel()
            raise

    async def _wait_async(self) -> None:
        call, loop = self._call, asyncio.get_running_loop()
        decided = asyncio.Event()
        call.on_decided = lambda: _tell(loop, decided)
        try:
            while call.waits:
                try:
                    async with asyncio.timeout(LOOK_EVERY_S):
                        await decided.wait()
                except TimeoutError:
                    call.look()
        except BaseException:
            call.cancel()
            raise


class Balancer:
    """Picks a replica for each call and learns from how the call ends."""

    def __init__(
        self,
        replicas: Iterable[str | ReplicaSpec],
        strategy: str = "least_expected_work",
        parameters: Mapping[str, StrategyParameter] | None = None,
        policy: Policy | None = None,
        clock: Callable[[], float] = time.monotonic,
        rng: Random | None = None,
        site: str = "",
    ) -> None:
        """``replicas``: base URLs, or specs with weights. ``policy``: ejection, slow start and so on.
        ``site``: where the calls come from; replicas that are said to be there go first.

        Raises ValueError for a bad URL, an unknown strategy or a bad parameter.
        """
        self._policy = msgspec.structs.replace(
            policy or Policy(), strategy=strategy, parameters=dict(parameters or {})
        )
        self._version = 1
        self._calls = ThreadSafePool(Pool(self._snapshot(replicas), rng=rng, site=site), clock)

    def pick(
        self,
        work: float = 0.0,
        tried: tuple[Replica, ...] = (),
        key: str | bytes = b"",
        timeout_s: float = 0.0,
        client: str | bytes = b"",
    ) -> Pick:
        """For ``with`` and ``async with``: the replica to use inside; how it ends is how the call ended.

        ``work``: estimated units of work, 0 when there is no estimate. ``tried``: replicas a repeated call
        has been at. ``key``: the session that the call belongs to, or its prompt, for strategies that keep
        such calls together; others leave it aside. ``timeout_s``: how long to wait for a slot where each
        replica serves as many as it may; ``async with`` lets the event loop run meanwhile. ``client``: on
        whose behalf the call is, if calls are on several's: what fails for one of them everywhere ejects no
        replica.

        An exception counts as a failure of the replica, except KeyboardInterrupt, cancellation and a
        generator that is closed. Raises NoReplica when nobody is eligible, the policy's queue is full, or
        there was no slot in that time.
        """
        return Pick(LibraryCall(self._calls, work, tried, key, client), timeout_s)

    def replace(self, replicas: Iterable[str | ReplicaSpec]) -> None:
        """Use these replicas from now on; those that stay keep what was learned of them."""
        given = list(replicas)

        def renew(now: float) -> None:
            self._version += 1
            self._calls.pool.replace(self._snapshot(given))

        self._calls.do(renew)

    def explain(self) -> list[ReplicaExplanation]:
        """For each replica: eligible, or why not, in plain words."""
        return self._calls.do(self._calls.pool.explain)

    def _snapshot(self, replicas: Iterable[str | ReplicaSpec]) -> FleetSnapshot:
        return FleetSnapshot(
            epoch=0,
            version=self._version,
            revision=1,
            name="library",
            protocol="generic",
            policy=self._policy,
            replicas=[_spec(given) for given in replicas],
        )


def _spec(given: str | ReplicaSpec) -> ReplicaSpec:
    if isinstance(given, ReplicaSpec):
        return given
    base = parse_base_url(normalise_url(given))
    return ReplicaSpec(uid=str(uuid5(NAMESPACE_URL, str(base))), name=base.authority, url=str(base))


def _outcome_of(error: BaseException | None) -> Outcome:
    """What the end of a call says about the replica."""
    if error is None:
        return Outcome.SUCCESS
    if not isinstance(error, Exception):
        return Outcome.CANCELLED
    if isinstance(error, TimeoutError):
        return Outcome.TIMEOUT
    if isinstance(error, ConnectionRefusedError):
        return Outcome.REFUSED
    return Outcome.LOST if isinstance(error, OSError) else Outcome.FAILED


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _tell(loop: asyncio.AbstractEventLoop, decided: asyncio.Event) -> None:
    """By whatever thread; a loop that is closed has nobody who waits."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(decided.set)
