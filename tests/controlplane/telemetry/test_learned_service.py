"""Reports of what was learned → what pages and the API say of replicas and their fleet."""

import pytest

from controlplane.telemetry import frame_builder, learned_service
from controlplane.telemetry.db_snapshot import DbSnapshot, FleetRow
from controlplane.telemetry.frames import FleetFrame
from controlplane.telemetry.merge import MergeState, ReceivedReport, merge
from routing.contract.learned_service import LearnedShape
from routing.contract.policy import Serves
from routing.contract.telemetry import FleetCounters, LearnedScale
from tests.controlplane.telemetry.reports import fleet, replica, report
from tests.controlplane.telemetry.test_frames import row


def frame(*workers: FleetCounters, serves: Serves = "auto") -> FleetFrame:
    reports = [report(f"host-{number}/1/0", fleets=[each]) for number, each in enumerate(workers)]
    merged = merge(MergeState(), [ReceivedReport(each, 0.1) for each in reports], 0.0)
    fleets = [
        FleetRow(
            id=1,
            name="digits",
            protocol="generic",
            aliases=[],
            adapters=[],
            strategy="least_expected_work",
            revision=1,
            version="1:1",
            replicas=[row("a"), row("b", id=2)],
            serves=serves,
        )
    ]
    return frame_builder.build(DbSnapshot("1:1", fleets), merged, {}, {}, sequence=1, at=1.0).fleets["digits"]


def scale(times: float, requests: float) -> LearnedScale:
    return LearnedScale(times_usual=times, error=1.12, request_s=0.42, requests=requests)


def test_a_replica_is_as_fast_as_its_proxies_have_learned() -> None:
    first = fleet(replicas=[replica(uid="uid-a", learned=scale(1.3, 40.0)), replica(uid="uid-b", name="b")])
    other = fleet(replicas=[replica(uid="uid-a", learned=scale(1.3, 20.0))])
    a, b = frame(first, other).replicas
    assert a.learned is not None
    assert a.learned.times_usual == pytest.approx(1.3)
    assert a.learned.error == pytest.approx(1.12)
    assert a.learned.request_s == pytest.approx(0.42)
    assert (a.learned.requests, a.learned.is_known) == (60.0, True)
    assert b.learned is None


def test_what_has_not_been_asked_lately_is_not_known() -> None:
    a, _ = frame(fleet(replicas=[replica(uid="uid-a", learned=scale(1.0, 0.2))])).replicas
    assert a.learned is not None
    assert not a.learned.is_known


def test_no_proxy_tells_how_a_fleet_serves() -> None:
    assert frame().serves is None
    assert frame(fleet()).serves is None


def told(batching: float, evidence: float) -> FleetCounters:
    return fleet(
        growth=1.32, growth_error=1.08, batching=batching, growth_evidence=evidence, growth_measured=50.0
    )


SLOTS = "slots: load does not slow requests"
BATCHES = "batches: each further request slows all"
BETWEEN = "between slots and batches: load slows requests a little"
MEASURED = "learned: with twice the load a request takes 1.32 × as long, ± 8 %"


@pytest.mark.parametrize(
    ("worker", "stated", "kind", "basis", "words", "how_known"),
    [
        (told(1.0, 0.9), "auto", "batches", "learned", BATCHES, MEASURED),
        (
            told(0.0, 0.1),
            "auto",
            "slots",
            "assumed",
            SLOTS,
            "assumed from the protocol and the probe; not learned yet",
        ),
        (told(0.5, 0.9), "auto", "between", "learned", BETWEEN, MEASURED),
        (told(0.0, 0.1), "slots", "slots", "stated", SLOTS, "stated by the policy"),
        (told(1.0, 0.9), "batch", "batches", "stated", BATCHES, f"stated by the policy; {MEASURED}"),
    ],
)
def test_how_a_fleet_serves_is_said_in_words(
    worker: FleetCounters, stated: Serves, kind: str, basis: str, words: str, how_known: str
) -> None:
    serves = frame(worker, serves=stated).serves
    assert serves is not None
    assert (serves.kind, serves.basis, serves.words) == (kind, basis, words)
    assert serves.how_known == how_known


def test_nothing_measured_is_nothing_said() -> None:
    assert learned_service.scale(None) is None
    assert learned_service.serves(None, "auto") is None
    shape = LearnedShape(growth=1.0, growth_error=1.1, batching=0.0, evidence=0.0)
    serves = learned_service.serves(shape, "auto")
    assert serves is not None
    assert serves.basis == "assumed"
