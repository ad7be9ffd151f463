"""What is shown of a quiet replica is made once; whatever happens to it, the picture is made anew."""

from dataclasses import replace

import pytest

from controlplane.probes.last_results import UnopenedResults, encode
from controlplane.telemetry import db_snapshot, durations, frame_builder
from controlplane.telemetry.db_snapshot import DbSnapshot, FleetRow, ReplicaRow
from controlplane.telemetry.frames import ReplicaLive
from controlplane.telemetry.merged_numbers import FleetNumbers, Merged, ReplicaNumbers
from controlplane.telemetry.quiet_replicas import QuietReplicas

NOW = 1_800_000_000.0
ROW = ReplicaRow(7, "u", "a", 1.0, None, "active", "ready", "200 OK", NOW - 7800)
FLEET = FleetRow(1, "f", "openai", [], [], "round_robin", 1, "1:1")


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [NOW]
    monkeypatch.setattr(db_snapshot, "wall_clock", lambda: now[0])
    return now


def results(passed: bool = True) -> UnopenedResults:
    said = encode(latency_s=0.002, passed=passed, answer="200 OK" if passed else "503 Loading model")
    return UnopenedResults((1, 0), {b"u": f"1000 {said}".encode()})


def shown(
    quiet: QuietReplicas, row: ReplicaRow = ROW, numbers: ReplicaNumbers | None = None, passed: bool = True
) -> ReplicaLive:
    merged = Merged()
    if numbers is not None:
        merged.fleets["f"] = FleetNumbers("f", replicas={"u": numbers})
    rows = DbSnapshot("1:1", [replace(FLEET, replicas=[row])])
    frames = frame_builder.build(rows, merged, results(passed), {}, sequence=1, at=NOW, quiet=quiet)
    return frames.fleets["f"].replicas[0]


def test_nothing_happens_and_nothing_is_made_again(clock: list[float]) -> None:
    quiet = QuietReplicas()
    first = shown(quiet)
    assert first.why == "for 2 h 10 min"
    assert shown(quiet) is first
    assert shown(quiet, numbers=ReplicaNumbers("u", "a", workers=2)) == first
    clock[0] += 60
    assert shown(quiet).why == "for 2 h 11 min"


@pytest.mark.parametrize(
    "changes",
    [{"in_flight": 1}, {"rps": 2.0}, {"ejected_by": 1}, {"doubt": "slow"}, {"drained_at": {"p": 3.0}}],
)
def test_what_happens_is_seen(changes: dict[str, object]) -> None:
    quiet = QuietReplicas()
    before = shown(quiet, numbers=ReplicaNumbers("u", "a", workers=2))
    busy = ReplicaNumbers("u", "a", workers=2, **changes)  # type: ignore[arg-type]
    assert shown(quiet, numbers=busy) == shown(QuietReplicas(), numbers=busy) != before


@pytest.mark.parametrize(
    "changes",
    [
        {"health": "down"},
        {"admin_state": "draining"},
        {"weight": 0.0},
        {"weight": 3.0},
        {"max_concurrency": 4},
    ],
)
def test_a_changed_row_is_seen(changes: dict[str, object]) -> None:
    quiet = QuietReplicas()
    before = shown(quiet)
    row = replace(ROW, **changes)  # type: ignore[arg-type]
    assert shown(quiet, row) == shown(QuietReplicas(), row) != before


def test_a_failed_probe_is_told() -> None:
    quiet = QuietReplicas()
    shown(quiet)
    assert "probe: 503 Loading model" in shown(quiet, passed=False).why


def test_what_proxies_have_learned_is_seen() -> None:
    quiet = QuietReplicas()
    assert shown(quiet, numbers=ReplicaNumbers("u", "a", speeds=[1.0])).seconds_per_work == 1.0
    assert shown(quiet, numbers=ReplicaNumbers("u", "a", speeds=[3.0])).seconds_per_work == 3.0


def test_deleted_ones_are_forgotten() -> None:
    quiet = QuietReplicas()
    live = shown(quiet)
    for number in range(200):
        quiet.keep(replace(ROW, uid=str(number)), FLEET, None, (), live)
    quiet.forget_beyond(1)
    assert quiet.known(ROW, FLEET, None, (False,)) is None


def test_its_age_goes_on(clock: list[float]) -> None:
    quiet = QuietReplicas()
    first = shown(quiet)
    clock[0] += 59
    assert shown(quiet) is first
    clock[0] += 1
    assert shown(quiet).why == "for 2 h 11 min"


def test_a_fleet_whose_policy_changes_is_seen() -> None:
    quiet = QuietReplicas()
    shown(quiet)
    assert quiet.unchanged(ROW, FLEET, None, NOW) is not None
    assert quiet.unchanged(ROW, replace(FLEET, continues=True), None, NOW) is None


@pytest.mark.parametrize("age_s", [0, 1.5, 59.9, 60, 61, 3599, 3600, 86_399, 86_400, 90_001.5])
def test_an_age_reads_the_same_for_as_long_as_said(age_s: float) -> None:
    same_s = durations.same_words_for(age_s)
    assert same_s > 0
    assert durations.words(age_s + same_s - 0.001) == durations.words(age_s)
    assert durations.words(age_s + same_s + 0.001) != durations.words(age_s)
