"""The pool as a library: balance calls inside one process, without a proxy.

::

    balancer = Balancer(["http://10.0.0.1:8000", "http://10.0.0.2:8000"])
    with balancer.pick(work=120) as replica:
        answer = session.post(f"http://{replica.host}:{replica.port}/v1/embeddings", json=request)

The same strategies, ejection, slow start and panic as in the proxy. May be used by several threads;
a lock is held for the microseconds of a pick or a settlement, never while the call runs.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from random import Random
from uuid import NAMESPACE_URL, uuid5

import msgspec

from routing.contract.addresses import parse_base_url
from routing.contract.policy import Policy, StrategyParameter
from routing.contract.table import FleetSnapshot, ReplicaSpec
from routing.outcome import Outcome
from routing.pool import ANY, Explanation, Pool
from routing.refusal import Refusal
from routing.replica import Replica


class NoReplica(Exception):
    """Nobody could be picked; the text says why, replica by replica."""


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
        self._lock = threading.Lock()
        self._clock = clock
        self._version = 1
        self._pool = Pool(self._snapshot(replicas), rng=rng, site=site)

    @contextmanager
    def pick(
        self, work: float = 0.0, tried: tuple[Replica, ...] = (), key: str | bytes = b""
    ) -> Iterator[Replica]:
        """The replica to use inside the ``with`` block; how the block ends is how the call ended.

        ``work``: estimated units of work, 0 when there is no estimate. ``tried``: replicas a repeated call
        has been at. ``key``: the session that the call belongs to, or its prompt, for strategies that keep
        such calls together; others leave it aside. An exception counts as a failure of the replica, except
        KeyboardInterrupt and cancellation. Raises NoReplica at once when nobody is eligible, or nobody has a
        place.
        """
        with self._lock:
            affinity = self._pool.affinity
            hashes = affinity.hashes(key.encode() if isinstance(key, str) else key) if affinity else ()
            attempt = self._pool.begin(work, self._clock(), tried, ANY, key=hashes)
        if isinstance(attempt, Refusal):
            raise NoReplica(attempt.message)
        outcome = Outcome.CANCELLED
        try:
            yield attempt.replica
            outcome = Outcome.SUCCESS
        except Exception as error:
            outcome = _outcome_of(error)
            raise
        finally:
            with self._lock:
                attempt.settle(outcome, self._clock())

    def replace(self, replicas: Iterable[str | ReplicaSpec]) -> None:
        """Use these replicas from now on; those that stay keep what was learned of them."""
        with self._lock:
            self._version += 1
            self._pool.replace(self._snapshot(replicas))

    def explain(self) -> list[Explanation]:
        """For each replica: eligible, or why not, in plain words."""
        with self._lock:
            return self._pool.explain(self._clock())

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
    base = parse_base_url(given)
    return ReplicaSpec(uid=str(uuid5(NAMESPACE_URL, str(base))), name=base.authority, url=str(base))


def _outcome_of(error: Exception) -> Outcome:
    """What an exception says about the replica."""
    if isinstance(error, TimeoutError):
        return Outcome.TIMEOUT
    if isinstance(error, ConnectionRefusedError):
        return Outcome.REFUSED
    return Outcome.LOST if isinstance(error, OSError) else Outcome.FAILED
