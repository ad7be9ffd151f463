"""Each rule that comes with Switchyard: where its condition holds, and what it says of it."""

from typing import Any

import pytest
from msgspec import structs

from controlplane.alerts import builtin_rules
from controlplane.alerts.picture import (
    FailingDestination,
    Picture,
    SeenCold,
    SeenDevice,
    SeenMeasured,
    TroubledSource,
)
from controlplane.alerts.rule_types import AlertSubject, Breach
from controlplane.scaling.signal import ScalingSignal
from tests.controlplane.alerts.pictures import (
    PARTS,
    Simulated,
    fleet,
    part,
    picture,
    replica,
    steps,
    worker,
)

RULES = {rule.name: rule for rule in builtin_rules.rules()}
NONE: frozenset[AlertSubject] = frozenset()


def found(rule: str, seen: Picture, firing: frozenset[AlertSubject] = NONE) -> list[Breach]:
    breaches = RULES[rule].find(seen, firing)
    assert breaches is not None
    return list(breaches)


def test_nothing_is_found_where_all_is_well() -> None:
    for name in RULES:
        assert found(name, picture()) == [], name


def test_what_is_unknown_is_not_taken_for_well() -> None:
    unknown = [name for name, rule in RULES.items() if rule.find(Picture(), NONE) is None]
    assert unknown == [name for name in RULES if name != "delivery_failing"]


def test_a_fleet_that_needs_more_is_told_of_where_it_is_full_and_nobody_scales() -> None:
    needs = ScalingSignal(
        desired=5, words="", taking=2, starting=1, arrivals_per_s=1.0, expected_per_s=1.0, used_percent=95.0
    )

    def said(signal: ScalingSignal) -> list[float | None]:
        return [one.value for one in found("replicas_missing", picture(fleet(scaling=signal)))]

    assert said(needs) == [5.0]
    assert said(structs.replace(needs, starting=3)) == []
    assert said(structs.replace(needs, used_percent=80.0)) == []
    assert said(structs.replace(needs, desired=None)) == []


def test_a_device_that_its_exporter_calls_broken() -> None:
    lost = SeenMeasured(trouble="XID 79: fell off the bus", is_defect=True)
    broken = SeenDevice(name="n/gpu0", measured=lost)
    hot = SeenDevice(name="n/gpu1", measured=SeenMeasured(trouble="slowed down: heat", is_defect=False))
    (one,) = found("device_defect", picture(devices=[broken, hot]))
    assert (one.subject.part, one.words) == ("n/gpu0", "its exporter says: XID 79: fell off the bus")


DOWN = replica("a", "down"), replica("b", "unready")


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (fleet(*DOWN), ("no replica takes requests: 1 down, 1 unready", None, None)),
        (
            fleet(*DOWN, covered=True),
            ("no replica takes requests (1 down, 1 unready); another fleet serves them", "warning", None),
        ),
        (
            fleet(*DOWN, cold=SeenCold()),
            ("no replica takes requests, all are still loading: 1 down, 1 unready", None, 600.0),
        ),
        (
            fleet(*DOWN, cold=SeenCold(expected_in_s=0.0)),
            ("no replica takes requests, and loading takes longer than usual: 1 down, 1 unready", None, None),
        ),
        (fleet(*DOWN, cold=SeenCold(expected_in_s=20.0)), None),
        (fleet(replica("a", "draining", admin_state="draining"), rps=0.0), None),
        (
            fleet(replica("a", "draining", admin_state="draining"), rps=2.0),
            ("no replica takes requests: 1 draining", None, None),
        ),
    ],
)
def test_no_eligible_replica(seen: Any, said: Any) -> None:
    wanted = [] if said is None else [Breach(AlertSubject("llm"), said[0], None, said[1], said[2])]
    assert found("no_eligible_replica", picture(seen)) == wanted


def test_a_replica_is_out_when_nobody_took_it_out() -> None:
    starting = replica("c", "checking", expected_in_s=30.0)
    taken = replica("d", "maintenance", admin_state="maintenance")
    ejected = replica("e", "ejected", why="5 timeouts in 8 s; probation in 6 s")
    seen = picture(
        fleet(
            replica("a"), replica("b", "down", why="connection refused, for 12 min"), starting, taken, ejected
        )
    )
    assert found("replica_out", seen) == [
        Breach(AlertSubject("llm", "b"), "down: connection refused"),
        Breach(AlertSubject("llm", "e"), "ejected: 5 timeouts in 8 s"),
    ]


@pytest.mark.parametrize(
    ("rule", "seen", "subject", "words"),
    [
        (
            "queue_refusing",
            picture(fleet(queue="refusing")),
            AlertSubject("llm"),
            "the queue (16 places) is full",
        ),
        (
            "probe_lag",
            picture(parts={"probes": part("probes", "warn", "late")}),
            AlertSubject(part="probes"),
            "out of date",
        ),
        (
            "table_refused",
            picture(proxies=[worker("refused")]),
            AlertSubject(part="gpu-1/7/0"),
            "it is as it says",
        ),
        (
            "table_old",
            picture(proxies=[worker("behind")]),
            AlertSubject(part="gpu-1/7/0"),
            "older table for llm",
        ),
        (
            "table_old",
            picture(proxies=[worker("no updates")]),
            AlertSubject(part="gpu-1/7/0"),
            "gets no new tables",
        ),
        (
            "proxy_missing",
            picture(proxies=[], parts={"proxies": part("proxies", "bad", "missing")}),
            AlertSubject(part="proxies"),
            "no proxy reports",
        ),
        (
            "proxy_missing",
            picture(proxies=[worker(), worker("silent", "gpu-2/9/0")]),
            AlertSubject(part="gpu-2/9/0"),
            "reports no more",
        ),
        (
            "control_plane_missing",
            picture(
                parts=PARTS
                | {
                    "worker": part(
                        "worker", "bad", "missing", "No Celery worker sends heartbeats: no probes."
                    )
                }
            ),
            AlertSubject(part="worker"),
            "no Celery worker sends",
        ),
        (
            "certificate_ending",
            picture(certificates={"gpu-1/7": 3 * 86400.0}),
            AlertSubject(part="gpu-1/7"),
            "ends in 3 d",
        ),
        (
            "connections_short",
            picture(proxies=[worker("short")]),
            AlertSubject(part="gpu-1/7/0"),
            "is as it says",
        ),
        (
            "memory_lease_refused",
            picture(devices=[SeenDevice(name="n/gpu0", lease_waits=2)]),
            AlertSubject(part="n/gpu0"),
            "leased out",
        ),
        (
            "delivery_failing",
            picture(failing=[FailingDestination("pager", "503")]),
            AlertSubject(part="pager"),
            "503",
        ),
    ],
)
def test_a_rule_names_what_is_wrong(rule: str, seen: Picture, subject: AlertSubject, words: str) -> None:
    (breach,) = found(rule, seen)
    assert breach.subject == subject
    assert words in breach.words


def test_a_certificate_is_critical_in_its_last_days() -> None:
    seen = picture(certificates={"old": -5.0, "soon": 86400.0, "later": 10 * 86400.0, "fine": 20 * 86400.0})
    assert [(one.subject.part, one.severity) for one in found("certificate_ending", seen)] == [
        ("later", "warning"),
        ("old", "critical"),
        ("soon", "critical"),
    ]


def test_what_fires_stays_while_redis_hides_it() -> None:
    """Redis is away: nothing is known of Celery, and Redis itself is what is wrong."""
    parts = {
        "redis": part("redis", "bad", "away", "It does not answer: refused."),
        "database": part("database"),
    }
    breaches = found("control_plane_missing", picture(parts=parts), frozenset({AlertSubject(part="worker")}))
    assert [one.subject.part for one in breaches] == ["redis", "worker"]


def test_a_source_that_is_frozen_or_failing_is_told_of_after_five_minutes_and_resolved_when_well() -> None:
    frozen = TroubledSource("llm", "pods", True, "it lists nothing")
    failing = TroubledSource("llm", "rack", False, "there is no file rack.yaml")
    troubled = picture(sources=[frozen, failing])
    said = {one.subject.part: one.words for one in found("source_frozen", troubled)}
    assert said == {
        "pods": "source pods is not believed: it lists nothing",
        "rack": "source rack does not answer: there is no file rack.yaml",
    }
    sim = Simulated()
    assert steps(sim.see_for(troubled, 295)) == ["began", "began"]
    assert steps(sim.see_for(troubled, 15)) == ["fired", "fired"]
    assert {one.subject.part for one in sim.firing} == {"pods", "rack"}
    assert steps(sim.see_for(picture(sources=[failing]), 120)) == ["faded", "resolved"]
    assert [one.subject.part for one in sim.firing] == ["rack"]
    sim.see_for(picture(sources=None), 300)
    assert [one.subject.part for one in sim.firing] == ["rack"], "unknown is not well"
