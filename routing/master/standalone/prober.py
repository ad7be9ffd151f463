"""Prober (active health checks) of a standalone proxy (``--probe``): one task per replica, in the master.

The requests, and how responses are judged, are in :mod:`routing.contract.probe_presets`. The health
transitions are in :mod:`routing.contract.health`. The control plane has the same rules.
"""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from routing.contract import health, startup
from routing.contract.addresses import parse_base_url
from routing.contract.flap_damping import NEVER_LOST, FlapPenalty, is_short, passes_needed
from routing.contract.inference_probe import is_due
from routing.contract.probe import Probe
from routing.contract.probe_presets import checks_of
from routing.contract.probe_result import ProbeResult
from routing.contract.table import ApiProtocol, FleetSnapshot, Health, Tls
from routing.http.name_resolver import NameResolver, ResolvedName
from routing.master.standalone.probe_client import ProbeTarget, probe
from routing.tls.context_cache import TlsContextCache
from routing.tls.credentials import Credentials

log = logging.getLogger(__name__)

ANSWERED_LATELY_S = 10.0

AnswerCounts = Callable[[], dict[str, int]]
"""Replica uid → responses to live traffic so far, as the workers have reported."""


class ProbedReplica(NamedTuple):
    """What identifies a probed replica; a change of any of it starts its probing anew."""

    uid: str
    url: str
    fleet: str
    replica: str
    protocol: ApiProtocol
    model: str


class ProbeStatus(NamedTuple):
    """The results of probing one replica."""

    health: Health
    has_passed: bool
    startup_s: float | None = None
    """How long its last start took; ``None``: no start was observed."""


class _StartupTimer:
    """Measures one replica's start, probe by probe."""

    def __init__(self, budget_s: float, now: float) -> None:
        self._budget_s = budget_s
        self._since = now
        self._starting = True
        self._failed = False

    def took_s(self, old: Health, new: Health, result: ProbeResult, now: float) -> float | None:
        """Seconds that the start took, if it ends with this result and its beginning was observed."""
        took_s = None
        if new == "ready" != old:
            took_s = startup.measured_duration(
                old, now - self._since, self._budget_s, starting=self._starting, failed=self._failed
            )
        if new != old:
            self._since, self._starting = now, startup.begins_start(old, new, result)
        self._failed = not result.passed
        return took_s


class Prober:
    """Probes every replica of the given fleets. ``changed`` is called when a result changes."""

    def __init__(
        self,
        changed: Callable[[], None],
        answered: AnswerCounts,
        rng: random.Random,
        found: Mapping[str, ProbeStatus] | None = None,
    ) -> None:
        """``found``: the results of an earlier prober to begin with, by uid."""
        self._changed = changed
        self._answered = answered
        self._rng = rng
        self._tasks: dict[ProbedReplica, tuple[Probe, asyncio.Task[None]]] = {}
        self._statuses: dict[str, ProbeStatus] = dict(found or {})
        self._answers: dict[str, int] = {}
        self._answered_at: dict[str, float] = {}
        self._watch: asyncio.Task[None] | None = None
        self._began = False
        self._contexts = TlsContextCache()
        self._names = NameResolver(asyncio.get_running_loop())
        self._credentials = Credentials()
        self._tls: dict[str, Tls] = {}
        """By fleet. A change does not start probing anew."""
        self._references: dict[str, str] = {}
        """Credential references, by replica uid. A change does not start probing anew."""

    def status(self, uid: str) -> ProbeStatus:
        return self._statuses.get(uid, ProbeStatus("checking", False))

    def follow(self, snapshots: Iterable[FleetSnapshot]) -> None:
        """Probe exactly the replicas of these tables from now on."""
        if self._watch is None:
            self._watch = asyncio.create_task(self._watch_answers())
        snapshots = list(snapshots)
        self._tls = {snapshot.name: snapshot.tls for snapshot in snapshots}
        self._references = {spec.uid: spec.credential for one in snapshots for spec in one.replicas}
        wanted = {target: snapshot.probe for snapshot in snapshots for target in _targets(snapshot)}
        for target, (settings, task) in list(self._tasks.items()):
            if wanted.get(target) != settings:
                task.cancel()
                del self._tasks[target]
        known = {target.uid for target in self._tasks}
        if not self._began:
            self._began, known = True, {target.uid for target in wanted}
        self._statuses = {uid: found for uid, found in self._statuses.items() if uid in known}
        for target, settings in wanted.items():
            if target not in self._tasks:
                self._tasks[target] = settings, asyncio.create_task(self._probe(target, settings))

    def stop(self) -> None:
        for _, task in self._tasks.values():
            task.cancel()
        if self._watch is not None:
            self._watch.cancel()

    async def _probe(self, target: ProbedReplica, settings: Probe) -> None:
        """Probe one replica until cancelled."""
        checks = checks_of(settings, target.protocol, target.url, target.model)
        began = time.monotonic()
        before = self.status(target.uid)
        state, counters, has_passed = before.health, health.Counters(), before.has_passed
        start, startup_s = _StartupTimer(settings.startup_budget_s, began), before.startup_s
        said, lost = "", NEVER_LOST
        host = self._names.name(parse_base_url(target.url).host)
        while True:
            started = time.monotonic()
            probe_target = self._probe_target(target, host)
            settled = state == "ready" and not counters.falls
            with_inference = is_due(settings, target.uid, settled=settled, now_s=time.time())
            result = await probe(checks, probe_target, has_passed, with_inference)
            now = time.monotonic()
            step = health.next_health(
                state,
                counters,
                result,
                checks.probe,
                has_passed=has_passed,
                in_startup_budget=now - began < settings.startup_budget_s,
                answering=now - self._answered_at.get(target.uid, -ANSWERED_LATELY_S) < ANSWERED_LATELY_S,
                rise=self._rise(target, settings, lost, now),
            )
            if state == "ready" != step.state:
                lost = lost.lost(now)
            took_s = start.took_s(state, step.state, result, now)
            startup_s = startup_s if took_s is None else took_s
            if step.changed:
                words = (target.replica, target.fleet, state, step.state, step.reason)
                log.info("replica %s of fleet %s: %s → %s: %s", *words)
            elif state != "ready" and not result.passed and step.reason != said:
                # Log why it is not ready, once for each new reason.
                log.info("replica %s of fleet %s is %s: %s", target.replica, target.fleet, state, step.reason)
            said = step.reason
            state, counters, has_passed = step.state, step.counters, step.has_passed
            found = ProbeStatus(state, has_passed, startup_s)
            if self.status(target.uid) != found:
                self._statuses[target.uid] = found
                self._changed()
            pause_s = settings.period_s * self._rng.uniform(0.9, 1.1) - (time.monotonic() - started)
            await asyncio.sleep(max(0.0, pause_s))

    def _rise(self, target: ProbedReplica, settings: Probe, lost: FlapPenalty, now: float) -> int:
        """Passes in a row that it needs to be ready again."""
        needed = passes_needed(settings, lost, now)
        if needed == settings.rise:
            return needed
        fleet = [self.status(one.uid).health for one in self._tasks if one.fleet == target.fleet]
        return settings.rise if is_short(fleet.count("ready"), len(fleet)) else needed

    def _probe_target(self, target: ProbedReplica, host: ResolvedName | None) -> ProbeTarget:
        return ProbeTarget(
            parse_base_url(target.url),
            self._tls[target.fleet],
            self._contexts,
            self._references[target.uid],
            self._credentials,
            host,
        )

    async def _watch_answers(self) -> None:
        """Record when each replica last responded to live traffic."""
        while True:
            await asyncio.sleep(1.0)
            answers, now = self._answered(), time.monotonic()
            for uid, count in answers.items():
                if count > self._answers.get(uid, 0):
                    self._answered_at[uid] = now
            self._answers = answers


def _targets(snapshot: FleetSnapshot) -> Iterable[ProbedReplica]:
    model = snapshot.served_model or snapshot.name
    for spec in snapshot.replicas:
        if spec.admin_state != "maintenance":
            yield ProbedReplica(spec.uid, spec.url, snapshot.name, spec.name, snapshot.protocol, model)
