"""Recorder: takes results from the probe loop and records them in batches, in two threads.

One records what changes nothing, which needs Redis alone. The other records changes of health, which need the
database: a database that makes its writers wait holds up no other replica's probes.
"""

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import lru_cache
from queue import Empty, SimpleQueue
from random import Random
from threading import Thread
from typing import Generic, NamedTuple, TypeVar

from django.db import close_old_connections

from controlplane.datastores.redis import client as redis_client
from controlplane.observability.metrics import LOAD_PAGES, PROBE_LATENESS
from controlplane.probes import prober, result_handler
from controlplane.probes.prober import NotSent, ProbingOutcome, ReplicaProbe, ReplicaProbeResult
from controlplane.probes.result_handler import Decided, Probed
from controlplane.probes.schedule import ActiveClaim
from controlplane.probes.targets import DueReplica
from routing.contract.health import Counters
from routing.contract.inference_probe import is_due

MOST_AT_ONCE = 1000
"""Results recorded together."""
MOST_CHANGES = 200
"""Changes of health in one transaction: operators' writes wait while it lasts, some 50 ms."""
GATHER_S = 0.05
"""How long the first of them waits for others."""
HANGS_AFTER_S = 120.0
"""A batch that takes longer hangs: everything it waits for has a shorter limit of its own."""

logger = logging.getLogger(__name__)
_T = TypeVar("_T")
LogOutages = Callable[[], AbstractContextManager[None]]


class Batch(NamedTuple):
    """What a task took on. By uid."""

    targets: Mapping[str, DueReplica]
    claims: Mapping[str, ActiveClaim]
    counters: Mapping[str, Counters]

    def questions(self) -> list[ReplicaProbe]:
        return [self._question(uid, claim) for uid, claim in self.claims.items()]

    def _question(self, uid: str, claim: ActiveClaim) -> ReplicaProbe:
        target = self.targets[uid]
        settled = target.state == "ready" and not self.counters[uid].falls
        return ReplicaProbe(
            uid,
            target.url,
            target.checks,
            target.has_passed,
            claim.wait_s,
            claim.begin_within_s,
            target.tls,
            target.credential,
            with_inference=is_due(target.checks.probe, uid, settled=settled, now_s=time.time()),
        )

    def probed(self, finding: ReplicaProbeResult) -> Probed:
        lateness_s = finding.late_s + self.claims[finding.uid].late_s
        PROBE_LATENESS.observe(lateness_s)
        if finding.load is not None:
            LOAD_PAGES.labels("nothing" if finding.load.problem else "figures").inc()
        return Probed(
            self.targets[finding.uid], self.claims[finding.uid].lease, self.counters[finding.uid], finding
        )


class _Gatherer(Generic[_T]):
    """A thread that takes what is put, as many as there are, again and again."""

    def __init__(self, name: str, handle: Callable[[list[_T]], None], most: int) -> None:
        self._handle = handle
        self._most = most
        self._items: SimpleQueue[_T] = SimpleQueue()
        self._began: float | None = None
        self.put = self._items.put
        Thread(target=self._run, name=name, daemon=True).start()

    def busy_s(self) -> float:
        """How long the batch in hand has taken so far."""
        began = self._began
        return 0.0 if began is None else time.monotonic() - began

    def _run(self) -> None:
        while True:
            items = self._gather()
            self._began = time.monotonic()
            try:
                close_old_connections()
                self._handle(items)
            except Exception:
                logger.exception("%d probe results could not be recorded", len(items))
            self._began = None

    def _gather(self) -> list[_T]:
        items = [self._items.get()]
        time.sleep(GATHER_S)
        while len(items) < self._most:
            try:
                items.append(self._items.get_nowait())
            except Empty:
                break
        return items


class Recorder:
    """Started with its first use; ends with the process."""

    def __init__(self, outages: LogOutages, rng: Random) -> None:
        self._outages = outages
        self._rng = rng
        self._results: _Gatherer[tuple[Batch, ProbingOutcome]] = _Gatherer(
            "probe-results", self._take, MOST_AT_ONCE
        )
        self._changes: _Gatherer[Decided] = _Gatherer("probe-changes", self._change, MOST_CHANGES)

    def follow(self, batch: Batch) -> None:
        """Send the batch's probes, and record what comes. Returns at once."""
        put = self._results.put
        prober.send(batch.questions(), lambda outcome: put((batch, outcome)))

    def hanging(self) -> str:
        """What hangs, in words; empty: nothing."""
        busy_s = max(self._results.busy_s(), self._changes.busy_s())
        return f"recording probe results has taken {busy_s:.0f} s" if busy_s > HANGS_AFTER_S else ""

    def _take(self, outcomes: list[tuple[Batch, ProbingOutcome]]) -> None:
        results = []
        for batch, outcome in outcomes:
            if isinstance(outcome, ReplicaProbeResult):
                results.append(batch.probed(outcome))
            else:
                _tell(batch, outcome)
        for change in self._unchanged(results):
            self._changes.put(change)

    def _unchanged(self, results: list[Probed]) -> list[Decided]:
        with self._outages():
            return record_unchanged(results, self._rng)
        return []

    def _change(self, changes: list[Decided]) -> None:
        with self._outages():
            result_handler.record_changes(redis_client(), changes, self._rng)


def record_unchanged(results: list[Probed], rng: Random) -> list[Decided]:
    """Records what changes nothing; returns the changes. Raises redis.RedisError."""
    decided = result_handler.decide(redis_client(), results)
    result_handler.record_unchanged(redis_client(), [one for one in decided if not one.decision.changed], rng)
    return [one for one in decided if one.decision.changed]


def probe_and_record(batch: Batch, rng: Random) -> None:
    """All of a batch in the caller's own thread and, of the database, connection.

    Raises redis.RedisError, django.db.Error and ProbesOverdue.
    """
    for finding in prober.probe(batch.questions()):
        changes = record_unchanged([batch.probed(finding)], rng)
        result_handler.record_changes(redis_client(), changes, rng)


def _tell(batch: Batch, outcome: NotSent) -> None:
    if outcome.error is not None:
        name = batch.targets[outcome.uid].name
        logger.error("the probe of %s failed by itself", name, exc_info=outcome.error)


@lru_cache(maxsize=1)
def _recorders() -> "list[Recorder]":
    return []


def recorder(outages: LogOutages, rng: Random) -> Recorder:
    """The process's."""
    known = _recorders()
    if not known:
        known.append(Recorder(outages, rng))
    return known[0]


def hanging() -> str:
    """Of the process's recorder, if it has one: what hangs, in words."""
    return next((one.hanging() for one in _recorders()), "")
