"""Pictures for the alert rules, and a clock of simulated time that evaluates them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import msgspec

from controlplane.alerts import builtin_rules
from controlplane.alerts.lifecycle import AlertChange, AlertStep, OpenAlert, advance
from controlplane.alerts.picture import Picture, SeenCold, SeenFleet, SeenQueue, SeenReplica, SeenSummary
from controlplane.alerts.rule_types import AlertSubject, RuleInForce
from controlplane.scaling.signal import ScalingSignal
from controlplane.system.status import Level, ProxyWorkerStatus, SystemComponent
from controlplane.telemetry.frames import Point

NOW = 1_800_000_000.0
PERIOD_S = 5.0


def replica(name: str = "a", state: str = "ready", **changes: Any) -> SeenReplica:
    values: dict[str, Any] = {"why": "for 3 min" if state == "ready" else f"{state} for a reason, for 3 min"}
    return SeenReplica(**{"name": name, "eligible": state == "ready", "state": state, **values, **changes})


def fleet(
    *replicas: SeenReplica,
    queue: str = "",
    cold: SeenCold | None = None,
    covered: bool = False,
    scaling: ScalingSignal | None = None,
    **point: float,
) -> SeenFleet:
    present = replicas or (replica("a"), replica("b"))
    summary = SeenSummary(
        name="llm",
        taking=sum(one.eligible for one in present),
        covered=covered,
        rps=point.get("rps", 5.0),
        error_percent=point.pop("error_percent", 0.0),
        queue=SeenQueue(state=queue, size=16, full_per_s=1.0 if queue == "refusing" else 0.0),
        cold=cold,
    )
    usual = {"rps": 5.0, "p50_s": None, "p99_s": None, "errors_per_s": 0.0, "in_flight": 1}
    measured = msgspec.convert({"at": NOW, **usual, **point}, type=Point)
    return SeenFleet(at=NOW, summary=summary, point=measured, replicas=list(present), scaling=scaling)


def part(name: str, level: Level = "calm", state: str = "well", words: str = "It is so.") -> SystemComponent:
    return SystemComponent(name=name, title=name, level=level, state=state, words=words)


def worker(state: str = "current", name: str = "gpu-1/7/0", level: Level = "calm") -> ProxyWorkerStatus:
    return ProxyWorkerStatus(
        level=level,
        state=state,
        words="It is as it says.",
        name=name,
        proxy="gpu-1/7",
        site="",
        software="",
        pid=8,
        table="1:1",
        behind=["llm"] if state == "behind" else [],
        age_s=0.3,
        uptime_s=900.0,
        cpu_percent=3.0,
        clients=1,
        upstreams=1,
        in_flight=0,
    )


PARTS = {
    name: part(name) for name in ("proxies", "database", "redis", "conductor", "worker", "beat", "probes")
}


def picture(*fleets: SeenFleet, **changes: Any) -> Picture:
    values = {
        "devices": [],
        "parts": PARTS,
        "proxies": [worker()],
        "certificates": {},
        "objectives": [],
        "sources": [],
    }
    return Picture(**{"fleets": list(fleets) or [fleet()], **values, **changes})


@dataclass
class Simulated:
    """Evaluations every PERIOD_S; keeps the alerts as the database would."""

    rules: Sequence[RuleInForce] = field(default_factory=builtin_rules.rules)
    now: float = NOW
    open: dict[str, OpenAlert] = field(default_factory=dict)
    log: list[tuple[float, AlertChange]] = field(default_factory=list)
    ids: Callable[[], str] = field(default_factory=lambda: map("alert-{}".format, count(1)).__next__)

    def see(self, seen: Picture, *, lost: frozenset[str] = frozenset()) -> list[AlertChange]:
        subjects: dict[str, set[AlertSubject]] = {}
        for alert in self.open.values():
            subjects.setdefault(alert.rule, set()).add(alert.subject)
        findings = {rule.name: rule.find(seen, frozenset(subjects.get(rule.name, ()))) for rule in self.rules}
        changes = advance(list(self.open.values()), self.rules, findings, self.now, self.ids, lost=lost)
        for change in changes:
            if change.step in (AlertStep.DROPPED, AlertStep.RESOLVED):
                self.open.pop(change.alert.id, None)
            else:
                self.open[change.alert.id] = change.alert
        self.log += [(self.now - NOW, change) for change in changes]
        self.now += PERIOD_S
        return changes

    def see_for(self, seen: Picture, seconds: float) -> list[AlertChange]:
        return [change for _ in range(int(seconds / PERIOD_S)) for change in self.see(seen)]

    @property
    def firing(self) -> list[OpenAlert]:
        return [one for one in self.open.values() if one.is_firing]


def steps(changes: Sequence[AlertChange]) -> list[str]:
    return [str(change.step) for change in changes]
