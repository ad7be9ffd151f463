"""Rows and numbers → what a page shows, with the reason in words."""

from collections import Counter
from dataclasses import replace

import pytest

from controlplane.probes.last_results import LastProbe
from controlplane.telemetry import db_snapshot, durations, frame_builder, history, state_text
from controlplane.telemetry.db_snapshot import DbSnapshot, FleetRow, ReplicaRow
from controlplane.telemetry.frame_builder import Frames
from controlplane.telemetry.frames import ColdLive, FleetFrame, Point, ReplicaLive, SiteLive
from controlplane.telemetry.merge import MergeState, ReceivedReport, merge
from controlplane.telemetry.merged_numbers import Merged, ReplicaNumbers
from controlplane.telemetry.scaling import Scalers
from routing.contract.policy import Locality, Queue
from tests.controlplane.telemetry.reports import applied, fleet, replica, report

NOW = 1_800_000_000.0


@pytest.fixture(autouse=True)
def _now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(db_snapshot, "wall_clock", lambda: NOW)


def row(name: str = "a", **changes: object) -> ReplicaRow:
    values: dict[str, object] = {
        "id": 1,
        "uid": f"uid-{name}",
        "name": name,
        "weight": 1.0,
        "max_concurrency": None,
        "admin_state": "active",
        "health": "ready",
        "health_reason": "200 OK",
        "health_for_s": 7800.0,
    }
    values |= changes
    for_s = values.pop("health_for_s")
    return ReplicaRow(**values, health_since=NOW - for_s)  # type: ignore[arg-type, operator]


def numbers(**changes: object) -> ReplicaNumbers:
    return ReplicaNumbers("uid-a", "a", workers=2, **changes)  # type: ignore[arg-type]


PASSING = LastProbe(age_s=1.0, latency_ms=31.2, passed=True, answer="200 OK")
FAILING = LastProbe(age_s=1.0, latency_ms=1000.4, passed=False, answer="no response in 1.0 s")
LOADING = LastProbe(age_s=1.0, latency_ms=1.4, passed=False, answer="503 Loading model")
EJECTED = {"ejected_by": 2, "ejected_for_s": 6.2, "ejection_reason": "5 failures in a row"}


@pytest.mark.parametrize(
    ("replica_row", "live", "probe", "state", "why", "eligible"),
    [
        (row(), numbers(), PASSING, "ready", "for 2 h 10 min", True),
        (row(), numbers(), FAILING, "ready", "for 2 h 10 min; probe: no response in 1.0 s", True),
        (row(weight=0.0), numbers(), None, "ready", "weight 0: gets no new requests", True),
        (
            row(health="checking", health_reason="not probed yet", health_for_s=41.0),
            numbers(),
            LOADING,
            "checking",
            "503 Loading model, for 41 s",
            False,
        ),
        (
            row(health="checking", health_reason="not probed yet", health_for_s=1.0),
            numbers(),
            None,
            "checking",
            "not probed yet, for 1 s",
            False,
        ),
        (
            row(health="checking", health_for_s=41.0, startup_s=60.0),
            numbers(),
            LOADING,
            "checking",
            "503 Loading model, for 41 s; expected in about 20 s",
            False,
        ),
        (
            row(health="down", health_reason="connection refused", health_for_s=95.0, startup_s=60.0),
            numbers(),
            None,
            "down",
            "connection refused, for 1 min; taking longer than the last start (1 min)",
            False,
        ),
        (
            row(),
            numbers(**EJECTED),
            PASSING,
            "ejected",
            "5 failures in a row; probation in 6 s; probe: 200 OK in 31 ms",
            False,
        ),
        (
            row(),
            numbers(**EJECTED | {"ejected_by": 1, "ejected_for_s": 0.0}),
            None,
            "ejected",
            "5 failures in a row at 1 of 2 workers; on probation: its next response decides",
            False,
        ),
        (
            row(),
            numbers(doubt="back for 3 s", doubted_by=2),
            PASSING,
            "ready",
            "for 2 h 10 min; back for 3 s",
            True,
        ),
        (
            row(),
            numbers(doubt="in doubt: it was silent", doubted_by=1),
            PASSING,
            "ready",
            "for 2 h 10 min; in doubt: it was silent at 1 of 2 workers",
            True,
        ),
        (row(admin_state="draining"), numbers(in_flight=3), None, "draining", "3 requests in flight", False),
        (
            row(admin_state="draining", move=True),
            numbers(
                in_flight=4, movable=1, staying=Counter(plain=2, tools=1), moved=9, moved_prompt_tokens=310
            ),
            None,
            "draining",
            "4 requests in flight: 1 waiting for room elsewhere, 2 not streamed, 1 with calls of tools; "
            "9 moved, for some 310 prompt tokens",
            False,
        ),
        (
            row(admin_state="draining", move=True),
            numbers(moved=9, moved_prompt_tokens=310),
            None,
            "draining",
            "no requests in flight; 9 moved, for some 310 prompt tokens",
            False,
        ),
        (
            row(admin_state="draining", health="down", health_reason="connection refused", health_for_s=60),
            numbers(**EJECTED),
            None,
            "draining",
            "no requests in flight; down: connection refused, for 1 min; "
            "ejected: 5 failures in a row; probation in 6 s",
            False,
        ),
        (
            row(admin_state="maintenance"),
            numbers(in_flight=1),
            None,
            "maintenance",
            "in maintenance by an operator, 1 request in flight",
            False,
        ),
        (
            row(),
            numbers(no_credential="credential env:K is not set (host h)", no_credential_at=2),
            PASSING,
            "unready",
            "credential env:K is not set (host h)",
            False,
        ),
        (
            row(),
            numbers(no_credential="credential env:K is not set (host h)", no_credential_at=1),
            PASSING,
            "ready",
            "credential env:K is not set (host h) at 1 of 2 workers",
            True,
        ),
        (
            row(),
            numbers(drained_at={"edge/7": 3119.6}),
            None,
            "ready",
            "emergency drain at proxy edge/7, for another 52 min",
            True,
        ),
        (
            row(),
            numbers(drained_at={"edge/7": 3119.6}, drained_everywhere=True),
            None,
            "draining",
            "emergency drain at proxy edge/7, for another 52 min",
            False,
        ),
        (
            row(health="down", health_reason="connection refused", health_for_s=60),
            numbers(drained_at={"a/1": 60.0, "b/2": 600.0}, drained_everywhere=True),
            None,
            "draining",
            "emergency drain at all 2 proxies, for another 10 min at most; "
            "down: connection refused, for 1 min",
            False,
        ),
        (
            row(),
            numbers(drained_at={f"p/{number}": 60.0 for number in range(5)}),
            None,
            "ready",
            "emergency drain at proxy p/0, for another 1 min and at proxy p/1, for another 1 min "
            "and at proxy p/2, for another 1 min and at 2 more",
            True,
        ),
    ],
)
def test_three_facts_give_one_word_and_all_reasons(
    replica_row: ReplicaRow,
    live: ReplicaNumbers,
    probe: LastProbe | None,
    state: str,
    why: str,
    eligible: bool,
) -> None:
    assert state_text.state(replica_row, live) == state
    assert state_text.why(replica_row, live, probe, startup_s=replica_row.startup_s) == why
    assert state_text.eligible(replica_row, live) is eligible


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0 s"),
        (0, "0 s"),
        (59.9, "59 s"),
        (60, "1 min"),
        (3599, "59 min"),
        (3600, "1 h"),
        (7800, "2 h 10 min"),
        (86_400, "1 d"),
        (529_200, "6 d 3 h"),
    ],
)
def test_durations_read_at_a_glance(seconds: float, text: str) -> None:
    assert durations.words(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.5, "a few seconds"),
        (5.1, "about 10 s"),
        (38, "about 40 s"),
        (57, "about 1 min"),
        (61, "about 2 min"),
        (3601, "about 1 h 1 min"),
    ],
)
def test_what_is_only_expected_is_rounded(seconds: float, text: str) -> None:
    assert durations.about(seconds) == text


def fleet_row(*replicas: ReplicaRow, name: str = "digits", version: str = "1:7") -> FleetRow:
    return FleetRow(1, name, "open-inference", ["d"], [], "round_robin", 3, version, list(replicas))


def frames_of(rows: DbSnapshot, *second: object) -> Frames:
    """Frames of one worker's two reports, the second with these fleets."""
    state = MergeState()
    merge(state, [ReceivedReport(report(sequence=5, manifest="1:4"), 0.1)], 0.0)
    latest = report(sequence=6, manifest="1:4", fleets=second)  # type: ignore[arg-type]
    merged = merge(state, [ReceivedReport(latest, 0.3)], 1.0)
    return frame_builder.build(rows, merged, {}, {}, sequence=9, at=1000.0)


def test_whether_another_fleet_gets_the_requests_that_find_no_replica() -> None:
    down, names = row(health="down"), ("digits", "second", "third")
    away = replace(fleet_row(down), stand_ins=["gone", "second", "third"])

    def covered(second: ReplicaRow, third: ReplicaRow) -> list[bool]:
        rows = [away, fleet_row(second, name="second"), fleet_row(third, name="third")]
        frames = frames_of(DbSnapshot("1:4", rows), *(fleet(9, name=name) for name in names))
        return [one.covered for one in frames.overview.fleets]

    assert covered(row(health="down"), row()) == [True, False, False]
    assert covered(row(weight=0.0), row(health="down")) == [False, False, False]


def frames_at(
    sites: list[str], replicas: list[ReplicaRow], locality: Locality | None = None, **counted: int
) -> FleetFrame:
    """Of one fleet, to whose proxies at these sites the numbers came within a second."""
    state, of = MergeState(), replace(fleet_row(*replicas), locality=locality or Locality())
    names = {f"{number}/1/0": site for number, site in enumerate(sites)}
    first = [ReceivedReport(report(name, sequence=5, site=site), 0.1) for name, site in names.items()]
    merge(state, first, 0.0)
    later = [
        ReceivedReport(report(name, sequence=6, site=site, fleets=[fleet(9, **counted)]), 0.1)
        for name, site in names.items()
    ]
    merged = merge(state, later, 1.0)
    return frame_builder.build(DbSnapshot("1:4", [of]), merged, {}, {}, sequence=9, at=1000.0).fleets[
        "digits"
    ]


def by_name(frames: Frames) -> dict[str, ReplicaLive]:
    return {live.name: live for live in frames.fleets["digits"].replicas}


def test_a_replica_of_weight_0_is_eligible_and_takes_nothing() -> None:
    rows = DbSnapshot("1:4", [fleet_row(row("a", weight=0.0), row("b"), row("c", weight=0.0, health="down"))])
    summary = frames_of(rows, fleet(40)).fleets["digits"].summary
    assert (summary.replicas, summary.eligible, summary.taking) == (3, 2, 1)


def test_a_fleet_frame_keeps_the_three_facts_apart() -> None:
    rows = DbSnapshot(
        "1:4", [fleet_row(row("a"), row("b", admin_state="draining"), row("c", health="unready"))]
    )
    frames = frames_of(
        rows,
        fleet(
            40,
            errors=2,
            in_flight=5,
            latencies=[0.1] * 30,
            replicas=[
                replica(30, uid="uid-a", in_flight=2, ejected_for_s=4.0, ejections=1),
                replica(10, uid="uid-b", in_flight=3),
            ],
        ),
    )
    live = by_name(frames)
    facts = {name: (each.admin_state, each.health, each.ejected) for name, each in live.items()}
    assert facts == {
        "a": ("active", "ready", True),
        "b": ("draining", "ready", False),
        "c": ("active", "unready", False),
    }
    assert (live["a"].rps, live["a"].share_percent, live["b"].share_percent) == (30.0, 75.0, 25.0)
    summary = frames.fleets["digits"].summary
    assert summary.states == {"ejected": 1, "draining": 1, "unready": 1}
    assert (summary.replicas, summary.eligible) == (3, 0)
    assert (summary.rps, summary.in_flight, summary.error_percent) == (40.0, 5, 5.0)
    assert frames.overview.total.rps == 40.0
    assert frames.fleets["digits"].point.p50_s == pytest.approx(0.1, rel=0.02)


@pytest.mark.parametrize(
    ("served", "unserved"),
    [([None, []], []), ([["x"], []], ["y"]), ([["x"], ["y", "x"]], []), ([[], []], ["x", "y"]), ([], [])],
)
def test_it_is_shown_which_adapters_nobody_serves(
    served: list[list[str] | None], unserved: list[str]
) -> None:
    rows = [row(f"r{number}", adapters=adapters) for number, adapters in enumerate(served)]
    snapshot = DbSnapshot("1:4", [replace(fleet_row(*rows), adapters=["x", "y"])])
    assert frames_of(snapshot, fleet(40)).fleets["digits"].summary.unserved_adapters == unserved


def test_it_is_shown_where_requests_with_keys_went() -> None:
    keyed = fleet(40, affinity_kept=20, affinity_spilled=5, affinity_new=1)
    live = frames_of(DbSnapshot("1:4", [fleet_row(row("a"))]), keyed).fleets["digits"].summary.affinity
    assert (live.kept_per_s, live.spilled_per_s, live.new_per_s) == (20.0, 5.0, 1.0)


EAST, WEST = row("a", site="east"), row("b", site="west")
PREFERS_NONE = Locality(prefer="none")


def test_it_is_shown_what_stays_at_a_site() -> None:
    live = frames_at(["east"], [EAST, WEST], stayed=46, spilled=4).summary
    assert live.sites == [SiteLive(name="east", stayed_per_s=46.0, spilled_per_s=4.0)]
    assert frames_at(["east"], [EAST, WEST]).summary.sites == []


@pytest.mark.parametrize(
    ("proxies", "rows", "locality", "said"),
    [
        (["east"], [EAST, WEST], Locality(), "; at west: asked while east is more than 80 % busy"),
        (
            ["east"],
            [row("a"), WEST],
            Locality(spill_above=0.07),
            "; at west: asked while east is more than 7 % busy",
        ),
        (
            ["south", "east"],
            [EAST, replace(EAST, name="c", site="south"), WEST],
            Locality(),
            "; at west: asked while east or south is more than 80 % busy",
        ),
        (["east", "west"], [EAST, WEST], Locality(), ""),
        (["east", ""], [row("a"), WEST], Locality(), ""),
        (["south"], [EAST, WEST], Locality(), ""),
        (["east"], [EAST, WEST], PREFERS_NONE, ""),
        (["east"], [EAST, row("b")], Locality(), ""),
        ([], [EAST, WEST], Locality(), ""),
    ],
)
def test_it_is_said_when_a_replica_elsewhere_is_asked(
    proxies: list[str], rows: list[ReplicaRow], locality: Locality, said: str
) -> None:
    why = {each.name: each.why for each in frames_at(proxies, rows, locality).replicas}
    assert (why["a"], why["b"]) == ("for 2 h 10 min", f"for 2 h 10 min{said}")


def test_capacity_is_known_only_when_every_eligible_replica_has_a_limit() -> None:
    known = DbSnapshot("1:4", [fleet_row(row("a", max_concurrency=4), row("b", max_concurrency=2))])
    open_ended = DbSnapshot("1:4", [fleet_row(row("a", max_concurrency=4), row("b"))])
    drained = fleet_row(row("a", max_concurrency=4), row("b", admin_state="draining"))
    assert frames_of(known).fleets["digits"].summary.capacity == 6
    assert frames_of(open_ended).fleets["digits"].summary.capacity is None
    assert frames_of(DbSnapshot("1:4", [drained])).fleets["digits"].summary.capacity == 4


@pytest.mark.parametrize(
    ("counted", "state"),
    [
        ({}, ""),
        ({"queued": 9}, ""),
        ({"waiting": 2, "oldest_wait_s": 1.9}, "waiting"),
        ({"waiting": 2, "oldest_wait_s": 2.0}, "late"),
        ({"oldest_wait_s": 3.0}, ""),
        ({"queue_late": 1}, "refusing"),
        ({"waiting": 6, "oldest_wait_s": 3.0, "queue_full": 1}, "refusing"),
        ({"cold": 5}, ""),
    ],
)
def test_what_a_queue_does_is_one_word(counted: dict[str, object], state: str) -> None:
    rows = DbSnapshot("1:4", [replace(fleet_row(row("a")), queue=Queue(size=6, timeout_s=4.0))])
    frames = frames_of(rows, fleet(40, **counted))
    queue = frames.fleets["digits"].summary.queue
    assert (queue.state, queue.size, queue.timeout_s) == (state, 6, 4.0)
    assert queue.waiting == counted.get("waiting", 0) == frames.fleets["digits"].point.waiting
    assert frames.overview.total.waiting == queue.waiting


def test_a_frame_says_how_many_replicas_are_needed() -> None:
    """40 requests a second that take 2 s each, in two replicas of 10; the third, with 20, is drained. 10 end
    a second, and a quarter of their places is to be free."""
    state, scalers = MergeState(), Scalers()
    rows = [row("a", max_concurrency=10), row("b", max_concurrency=10)]
    drained = row("c", max_concurrency=20, admin_state="draining")
    database = DbSnapshot("1:4", [fleet_row(*rows, drained)])
    for second in range(80):
        done = replica(10 * second, uid="uid-a", latencies=[2.0] * 10 * second)
        counted = fleet(40 * second, waiting=9, in_flight=29, replicas=[done])
        merged = merge(state, [ReceivedReport(report(sequence=second, fleets=[counted]), 0.1)], float(second))
        frames = frame_builder.build(database, merged, {}, {}, sequence=1, at=1000.0)
        scalers.follow(frames, database, merged, float(second))
    digits = frames.fleets["digits"]
    assert digits.summary.queue.short_for_s == 78.0
    signal = digits.scaling
    assert signal is not None
    assert signal.replica_per_s == pytest.approx(7.5 / 2.0)
    assert (signal.taking, signal.desired, digits.summary.desired_replicas) == (2, 11, 11)
    assert "9 wait" in signal.words


def test_without_proxies_no_number_of_replicas_is_made_up() -> None:
    database = DbSnapshot("1:4", [fleet_row(row("a"))])
    frames = frame_builder.build(database, Merged(), {}, {}, sequence=1, at=1000.0)
    Scalers().follow(frames, database, Merged(), 1.0)
    assert frames.fleets["digits"].scaling is None
    assert frames.fleets["digits"].summary.desired_replicas is None


def test_each_proxy_has_a_queue_of_the_fleets_size() -> None:
    state = MergeState()
    # Each counts at a moment of its own, so that the sum may be more than may wait.
    reports = [report(name, fleets=[fleet(waiting=200)]) for name in ("one/1/0", "one/1/1", "two/7/0")]
    merged = merge(state, [ReceivedReport(each, 0.1) for each in reports], 0.0)
    rows = DbSnapshot("1:4", [fleet_row(row("a")), fleet_row(row("b"), name="idle")])
    frames = frame_builder.build(rows, merged, {}, {}, sequence=1, at=1000.0)
    assert frames.fleets["digits"].summary.queue.waiting == 512
    assert {name: each.summary.queue.size for name, each in frames.fleets.items()} == {
        "digits": 512,
        "idle": 256,
    }


def test_a_fleet_is_cold_while_nobody_can_be_asked_and_somebody_loads() -> None:
    def loading(name: str, **changes: object) -> ReplicaRow:
        return row(name, **{"health": "checking", "health_for_s": 30.0} | changes)

    def cold(*replicas: ReplicaRow) -> ColdLive | None:
        return frames_of(DbSnapshot("1:4", [fleet_row(*replicas)])).fleets["digits"].summary.cold

    assert cold(loading("a"), row("b")) is None
    assert cold() is None
    assert cold(row("a", health="down"), loading("b", admin_state="draining")) is None
    assert cold(loading("a", weight=0.0)) is None
    assert cold(loading("a"), row("b", health="down")) == ColdLive(loading=1, expected_in_s=None)
    assert cold(loading("a"), row("b", weight=0.0)) == ColdLive(loading=1, expected_in_s=None)
    # The one that took 100 s is behind; the other is expected to take what the two known ones took.
    known = (
        loading("a", startup_s=100.0),
        loading("b", health_for_s=5.0),
        row("c", health="down", startup_s=40.0),
    )
    assert cold(*known) == ColdLive(loading=2, expected_in_s=65.0)
    assert cold(loading("a", startup_s=20.0)) == ColdLive(loading=1, expected_in_s=0.0)


def test_who_has_no_credential_is_not_waited_for() -> None:
    rows = DbSnapshot("1:4", [fleet_row(row("a", health="checking"))])
    without = replica(uid="uid-a", no_credential="credential env:K is not set (host h)")
    frames = frames_of(rows, fleet(replicas=[without]))
    assert by_name(frames)["a"].locked_out
    assert frames.fleets["digits"].summary.cold is None


def test_a_replica_is_expected_only_while_it_starts() -> None:
    rows = [
        row("a", startup_s=60.0),
        row("b", health="checking", health_for_s=20.0),
        row("c", health="down", health_for_s=20.0, starting=False),
        row("d", health="unready", health_for_s=90.0),
    ]
    live = by_name(frames_of(DbSnapshot("1:4", [fleet_row(*rows)])))
    assert {name: each.expected_in_s for name, each in live.items()} == {
        "a": None,
        "b": 40,
        "c": None,
        "d": 0,
    }


def test_a_request_that_waits_for_a_cold_fleet_may_wait_longer() -> None:
    policy = Queue(timeout_s=4.0, cold="hold", cold_timeout_s=60.0)

    def queue(replica_row: ReplicaRow) -> tuple[str, float]:
        rows = DbSnapshot("1:4", [replace(fleet_row(replica_row), queue=policy)])
        found = frames_of(rows, fleet(waiting=2, oldest_wait_s=20.0)).fleets["digits"].summary.queue
        return found.state, found.timeout_s

    assert queue(row("a", health="checking")) == ("waiting", 60.0)
    assert queue(row("a")) == ("late", 4.0)


@pytest.mark.parametrize(
    ("manifest", "version", "behind", "current"),
    [("1:4", "1:7", False, 1), ("1:5", "1:7", True, 1), ("1:4", "1:8", True, 0), ("2:1", "2:1", True, 0)],
)
def test_a_worker_is_behind_while_something_newer_is_not_applied(
    manifest: str, version: str, behind: bool, current: int
) -> None:
    frames = frames_of(DbSnapshot(manifest, [fleet_row(version=version)]), *applied({"digits": "1:7"}))
    assert [worker.behind for worker in frames.overview.workers] == [behind]
    assert frames.fleets["digits"].workers_current == current


def test_a_fleet_that_nobody_reports_has_a_frame_all_the_same() -> None:
    frames = frames_of(DbSnapshot("1:4", [fleet_row(row("a"))]))
    frame = frames.fleets["digits"]
    assert (frame.point.rps, frame.point.p50_s, frame.workers, frame.workers_current) == (0.0, None, 1, 0)
    assert frames.overview.replicas == 1


def test_a_coarse_point_has_means_and_the_percentiles_of_the_last_window() -> None:
    values = {"rps": 1.0, "p50_s": 0.1, "p99_s": None, "errors_per_s": 0.0, "in_flight": 1, "waiting": 2}
    first = Point(at=10.0, **values)  # type: ignore[arg-type]
    last = Point(at=11.0, rps=4.0, p50_s=0.3, p99_s=0.4, errors_per_s=0.5, in_flight=4, waiting=5)
    coarse = history.coarsen([first, first, last])
    assert (coarse.at, coarse.rps, coarse.p50_s, coarse.p99_s) == (11.0, 2.0, 0.3, 0.4)
    assert (coarse.errors_per_s, coarse.in_flight, coarse.waiting) == (pytest.approx(0.5 / 3), 2, 3)
