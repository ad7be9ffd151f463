"""Reports in, numbers out: nothing counted twice, nothing negative, percentiles merged."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.telemetry.frames import WINDOW_S
from controlplane.telemetry.merge import MergeState, ReceivedReport, merge
from controlplane.telemetry.merged_numbers import FleetNumbers, Merged
from routing.contract import sketch
from routing.contract.redis_keys import WORKER_TTL_S
from routing.contract.telemetry import (
    SAID_BY_ANOTHER,
    EmergencyDrainReport,
    FleetCounters,
    ReplicaCounters,
    WorkerReport,
)
from tests.controlplane.telemetry.reports import fleet, replica, report, sketch_of


def heard(*reports: WorkerReport, age_s: float = 0.2) -> list[ReceivedReport]:
    return [ReceivedReport(each, age_s) for each in reports]


def after_first(first: WorkerReport, *later: WorkerReport) -> tuple[MergeState, Merged]:
    """The last merge of a worker's reports, one a second."""
    state = MergeState()
    merged = merge(state, heard(first), 0.0)
    for second, each in enumerate(later, 1):
        merged = merge(state, heard(each), float(second))
    return state, merged


def after_a_second_of_two(first: FleetCounters, second: FleetCounters) -> Merged:
    """What two workers that had done nothing yet did in a second, each for one fleet."""
    names, state = ("host/1/0", "host/1/1"), MergeState()
    merge(state, heard(*(report(name, sequence=5) for name in names)), 0.0)
    did = zip(names, (first, second), strict=True)
    return merge(state, heard(*(report(name, sequence=6, fleets=[each]) for name, each in did)), 1.0)


def test_rates_are_what_was_counted_between_two_reports() -> None:
    _, merged = after_first(
        report(sequence=100, fleets=[fleet(5000, errors=7)]),
        report(sequence=101, fleets=[fleet(5040, errors=9, in_flight=3)]),
    )
    numbers = merged.fleets["digits"]
    assert (numbers.rps, numbers.errors_per_s, numbers.in_flight) == (40.0, 2.0, 3)


def test_requests_that_reached_no_fleet_are_counted_over_the_window() -> None:
    state, merged = after_first(
        report(sequence=100, rejected=500),
        report(sequence=101, rejected=530),
        report(sequence=102, rejected=540),
    )
    assert (merged.refused_per_s, merged.total.rps) == (40 / WINDOW_S, 0.0)
    assert merge(state, [], 2.0 + WINDOW_S).refused_per_s == 0.0


def test_the_first_sight_of_an_old_worker_is_a_baseline_not_a_burst() -> None:
    _, merged = after_first(report(sequence=3600, fleets=[fleet(1_000_000, latencies=[0.1] * 50)]))
    numbers = merged.fleets["digits"]
    assert (numbers.rps, numbers.p50_s) == (0.0, None)


def test_a_worker_that_started_while_we_watched_is_counted_from_its_first_report() -> None:
    state = MergeState()
    merge(state, [], 0.0)
    merged = merge(state, heard(report(sequence=1, fleets=[fleet(25)])), 1.0)
    assert merged.fleets["digits"].rps == 25.0


def test_a_restarted_worker_begins_again_at_zero() -> None:
    _, merged = after_first(
        report(sequence=500, incarnation=1, fleets=[fleet(10_000)]),
        report(sequence=1, incarnation=2, fleets=[fleet(30)]),
    )
    assert merged.fleets["digits"].rps == 30.0


def test_a_replica_whose_counters_began_again_is_never_negative() -> None:
    _, merged = after_first(
        report(sequence=10, fleets=[fleet(100, replicas=[replica(100, failed=4)])]),
        report(sequence=11, fleets=[fleet(106, replicas=[replica(6, failed=1)])]),
    )
    numbers = merged.fleets["digits"].replicas["u1"]
    assert (numbers.rps, numbers.errors_per_s) == (6.0, 1.0)


def test_the_same_report_read_twice_counts_once_and_keeps_its_rate() -> None:
    second = report(sequence=11, fleets=[fleet(140, latencies=[0.2] * 10)])
    state, merged = after_first(report(sequence=10, fleets=[fleet(100)]), second, second)
    assert merged.fleets["digits"].rps == 40.0
    assert state.total.requests == 40


def test_two_reports_between_two_merges_do_not_double_the_rate() -> None:
    _, merged = after_first(
        report(sequence=10, fleets=[fleet(100)]), report(sequence=12, fleets=[fleet(180)])
    )
    assert merged.fleets["digits"].rps == 40.0


def test_workers_add_up() -> None:
    merged = after_a_second_of_two(
        fleet(10, in_flight=1, replicas=[replica(10, in_flight=1)]),
        fleet(30, in_flight=2, replicas=[replica(30, in_flight=2)]),
    )
    numbers = merged.fleets["digits"]
    assert (numbers.rps, numbers.in_flight) == (40.0, 3)
    assert (numbers.replicas["u1"].rps, numbers.replicas["u1"].in_flight) == (40.0, 3)
    assert (merged.total.rps, merged.total.in_flight) == (40.0, 3)


def test_where_requests_with_keys_went_adds_up_over_workers() -> None:
    merged = after_a_second_of_two(
        fleet(10, affinity_kept=4, affinity_new=1), fleet(30, affinity_kept=8, affinity_spilled=2)
    )
    numbers = merged.fleets["digits"]
    assert (numbers.kept_per_s, numbers.spilled_per_s, numbers.new_per_s) == (12.0, 2.0, 1.0)


def test_what_stays_at_a_site_adds_up_over_its_workers() -> None:
    state, names = MergeState(), {"one/1/0": "east", "one/1/1": "east", "two/1/0": "west", "three/1/0": ""}

    def reports(sequence: int, **counted: int) -> list[ReceivedReport]:
        fleets = [fleet(sequence, **counted)]
        return heard(*(report(name, sequence=sequence, fleets=fleets, site=at) for name, at in names.items()))

    merge(state, reports(10, stayed=100, spilled=10), 0.0)
    sites = merge(state, reports(11, stayed=106, spilled=11), 1.0).fleets["digits"].sites
    assert {name: (one.stayed_per_s, one.spilled_per_s) for name, one in sites.items()} == {
        "east": (12.0, 2.0),
        "west": (6.0, 1.0),
        "": (6.0, 1.0),
    }


def test_queues_add_up_over_workers_and_proxies_and_look_back_over_the_window() -> None:
    """Two workers of one proxy and one of another; the waits of one are a hundred times the other's."""
    names, state = ("one/1/0", "one/1/1", "two/1/0"), MergeState()
    merge(state, heard(*(report(name, sequence=5) for name in names)), 0.0)
    quick = fleet(waiting=3, oldest_wait_s=0.5, queued=30, waited=sketch_of([0.01] * 30))
    slow = fleet(waiting=4, oldest_wait_s=2.5, queued=20, waited=sketch_of([1.0] * 10), queue_late=5)
    full = fleet(waiting=5, oldest_wait_s=1.0, queued=50, queue_full=7, cold=2)
    did = [
        report(name, sequence=6, fleets=[each]) for name, each in zip(names, (quick, slow, full), strict=True)
    ]
    merged = merge(state, heard(*did), 1.0)
    queue = merged.fleets["digits"].queue
    assert (queue.waiting, queue.oldest_wait_s, queue.proxies) == (12, 2.5, {"one/1", "two/1"})
    assert (queue.queued_per_s, queue.full_per_s, queue.late_per_s, queue.cold_per_s) == (10.0, 0.7, 0.5, 0.2)
    assert queue.p50_s == pytest.approx(0.01, rel=0.02)
    assert queue.p99_s == pytest.approx(1.0, rel=0.02)
    assert merged.total.queue.waiting == 12
    # Told again a moment later, the same reports count nothing; when the window is over they are forgotten.
    assert merge(state, heard(*did), 2.0).fleets["digits"].queue.full_per_s == 0.7
    past = merge(state, heard(*did), 1.0 + WINDOW_S).fleets["digits"].queue
    assert (past.waiting, past.full_per_s, past.queued_per_s, past.p99_s) == (12, 0.0, 0.0, None)


def test_how_long_places_are_short() -> None:
    state = MergeState()

    def second(sequence: int, requests: int, **queue: object) -> FleetNumbers:
        done = replica(requests, latencies=[0.5] * requests)
        other = replica(requests, uid="u2", name="b", latencies=[2.5] * requests)
        counted = fleet(2 * requests, replicas=[done, other], **queue)
        told = heard(report(sequence=sequence, fleets=[counted]))
        return merge(state, told, float(sequence)).fleets["digits"]

    second(1, 0)
    calm = second(2, 10)
    assert (calm.queue.short_for_s, calm.served_per_s) == (0.0, 20.0)
    assert second(3, 20, waiting=2).queue.short_for_s == 0.0
    busy = second(9, 30, waiting=1)
    assert busy.queue.short_for_s == 6.0
    refusing = second(10, 40, queue_full=3)
    assert refusing.queue.short_for_s == 7.0
    assert second(21, 50, queue_full=3).queue.short_for_s == 0.0


def test_a_queue_of_a_restarted_worker_begins_again_at_zero() -> None:
    _, merged = after_first(
        report(sequence=500, incarnation=1, fleets=[fleet(900, queued=800, queue_full=70)]),
        report(sequence=1, incarnation=2, fleets=[fleet(40, queued=30, queue_full=10)]),
    )
    queue = merged.fleets["digits"].queue
    assert (queue.queued_per_s, queue.full_per_s) == (3.0, 1.0)


def test_only_what_a_queue_counted_since_the_last_report_is_news() -> None:
    before = {"queued": 800, "queue_full": 70, "queue_late": 60, "cold": 50}
    after = {"queued": 810, "queue_full": 72, "queue_late": 63, "cold": 54}
    _, merged = after_first(
        report(sequence=5, fleets=[fleet(900, waited=sketch_of([9.0] * 700), **before)]),
        report(sequence=6, fleets=[fleet(940, waited=sketch_of([9.0] * 700 + [0.1] * 2), **after)]),
    )
    queue = merged.fleets["digits"].queue
    assert (queue.queued_per_s, queue.full_per_s, queue.late_per_s, queue.cold_per_s) == (1.0, 0.2, 0.3, 0.4)
    assert queue.p99_s == pytest.approx(0.1, rel=0.02)


def test_a_worker_not_heard_for_its_time_to_live_is_gone_with_its_requests() -> None:
    state = MergeState()
    last = report(sequence=2, fleets=[fleet(50, in_flight=9)])
    merge(state, heard(report(sequence=1)), 0.0)
    assert merge(state, heard(last), 1.0).total.in_flight == 9
    merged = merge(state, heard(last, age_s=WORKER_TTL_S + 0.1), 7.0)
    assert (merged.workers, merged.total.in_flight, merged.total.rps) == ({}, 0, 0.0)


def test_a_worker_that_was_silent_for_a_while_loses_nothing() -> None:
    state = MergeState()
    merge(state, heard(report(sequence=10, fleets=[fleet(100)])), 0.0)
    merge(state, [], 6.0)
    merged = merge(state, heard(report(sequence=18, fleets=[fleet(180, latencies=[0.1] * 80)])), 8.0)
    assert merged.fleets["digits"].rps == 10.0
    assert state.fleets["digits"].requests == 80


def test_what_is_older_than_the_window_is_no_latency_of_now() -> None:
    _, merged = after_first(
        report(sequence=10, fleets=[fleet(0)]), report(sequence=130, fleets=[fleet(1200, latencies=[9.0])])
    )
    assert merged.fleets["digits"].rps == 10.0
    assert merged.fleets["digits"].p99_s is None


def test_percentiles_look_back_over_the_window_and_then_forget() -> None:
    state, merged = after_first(
        report(sequence=10), report(sequence=11, fleets=[fleet(100, latencies=[1.0] * 100)])
    )
    assert merged.fleets["digits"].p50_s == pytest.approx(1.0, rel=0.02)
    same = report(sequence=12, fleets=[fleet(100, latencies=[1.0] * 100)])
    assert merge(state, heard(same), WINDOW_S + 0.5).fleets["digits"].p50_s is not None
    assert merge(state, heard(same), WINDOW_S + 1.0).fleets["digits"].p50_s is None


def test_percentiles_are_merged_and_never_averaged() -> None:
    """A slow worker with few requests: the average of the two p50 would be 0.505 s."""
    merged = after_a_second_of_two(
        fleet(990, latencies=[0.01] * 990),
        fleet(10, latencies=[1.0] * 10),
    )
    assert merged.total.p50_s == pytest.approx(0.01, rel=0.02)
    assert merged.total.p99_s == pytest.approx(0.01, rel=0.02)


def test_an_ejection_is_known_with_the_reason_of_the_worker_that_saw_it() -> None:
    one, two = "host/1/0", "host/1/1"
    seen = replica(1, ejected_for_s=4.0, ejections=1, ejection_reason="5 failures in a row")
    followed = replica(1, ejected_for_s=3.5, ejections=0, ejection_reason="another worker saw it")
    merged = merge(
        MergeState(),
        heard(report(one, fleets=[fleet(replicas=[followed])]), report(two, fleets=[fleet(replicas=[seen])])),
        0.0,
    )
    numbers = merged.fleets["digits"].replicas["u1"]
    assert (numbers.ejected_by, numbers.workers) == (2, 2)
    assert (numbers.ejection_reason, numbers.ejected_for_s) == ("5 failures in a row", 4.0)


def test_a_doubt_is_known_with_how_many_workers_have_it() -> None:
    said = ["in doubt: it was silent", "", "in doubt: it was silent; a request tries it out"]
    reports = [
        report(f"host/1/{at}", fleets=[fleet(replicas=[replica(1, doubt=words)])])
        for at, words in enumerate(said)
    ]
    numbers = merge(MergeState(), heard(*reports), 0.0).fleets["digits"].replicas["u1"]
    assert (numbers.doubt, numbers.doubted_by, numbers.workers) == (said[2], 2, 3)


@pytest.mark.parametrize("told_first", [True, False])
def test_a_worker_that_follows_another_hides_no_reason(told_first: bool) -> None:
    """Though it has ejected the replica as often before."""
    nothing = "nothing listens at 10.0.0.1:8000"
    seen = replica(1, ejected_for_s=4.0, ejections=1, ejection_reason=nothing)
    followed = replica(1, ejected_for_s=4.0, ejections=1, ejection_reason=f"{SAID_BY_ANOTHER} saw it fail")
    both = [seen, followed] if told_first else [followed, seen]
    reports = [report(f"host/1/{at}", fleets=[fleet(replicas=[one])]) for at, one in enumerate(both)]
    merged = merge(MergeState(), heard(*reports), 0.0)
    assert merged.fleets["digits"].replicas["u1"].ejection_reason == nothing


def test_a_credential_that_cannot_be_read_is_counted_by_worker() -> None:
    def held(worker: str, words: str) -> ReceivedReport:
        counters = ReplicaCounters(uid="u", name="a", no_credential=words)
        return ReceivedReport(report(worker, fleets=[fleet(replicas=[counters])]), 0.1)

    seen = merge(MergeState(), [held("p/1/0", ""), held("q/2/0", "credential env:K …")], 1.0)
    numbers = seen.fleets["digits"].replicas["u"]
    assert (numbers.no_credential, numbers.no_credential_at) == ("credential env:K …", 1)


def test_a_drain_by_hand_is_known_by_proxy() -> None:
    def drained(worker: str, *names: str, left_s: float = 60.0) -> WorkerReport:
        told = [EmergencyDrainReport(fleet="digits", replica=name, expires_in_s=left_s) for name in names]
        replicas = [ReplicaCounters(uid=f"u-{name}", name=name) for name in "ab"]
        return report(worker, fleets=[fleet(replicas=replicas)], drained_by_hand=told)

    reports = [drained("p/1/0", "a"), drained("p/1/1", "a", left_s=61.0), drained("q/2/0", "gone")]
    seen = merge(MergeState(), [ReceivedReport(one, 0.1) for one in reports], 1.0).fleets["digits"].replicas
    assert seen["u-a"].drained_at == {"p/1": 61.0}
    assert not seen["u-a"].drained_everywhere
    assert seen["u-b"].drained_at == {}
    reports[2] = drained("q/2/0", "a")
    seen = merge(MergeState(), [ReceivedReport(one, 0.1) for one in reports], 1.0).fleets["digits"].replicas
    assert seen["u-a"].drained_at == {"p/1": 61.0, "q/2": 60.0}
    assert seen["u-a"].drained_everywhere
    assert not seen["u-b"].drained_everywhere


def test_what_can_be_moved_adds_up_over_workers() -> None:
    def looked(worker: str, **staying: int) -> WorkerReport:
        one = ReplicaCounters(
            uid="u", name="a", movable=2, movable_prompt_tokens=30, staying=staying, moved=1
        )
        return report(worker, fleets=[fleet(replicas=[one])])

    reports = [looked("p/1/0", plain=2), looked("p/1/1", plain=1, tools=1)]
    seen = merge(MergeState(), [ReceivedReport(one, 0.1) for one in reports], 1.0)
    numbers = seen.fleets["digits"].replicas["u"]
    assert (numbers.movable, numbers.movable_prompt_tokens, numbers.moved) == (4, 60, 2)
    assert numbers.staying == {"plain": 3, "tools": 1}


def test_fleets_and_replicas_that_nobody_reports_any_more_are_forgotten() -> None:
    state, _ = after_first(
        report(sequence=10), report(sequence=11, fleets=[fleet(4, replicas=[replica(4, latencies=[0.1])])])
    )
    merge(state, heard(report(sequence=40)), 30.0)
    assert (state.fleets, state.replicas, state.queues) == ({}, {}, {})


@given(
    st.lists(st.tuples(st.integers(0, 50), st.booleans(), st.booleans()), min_size=1, max_size=30),
)
def test_whatever_is_lost_or_restarted_every_request_is_counted_once(
    seconds: list[tuple[int, bool, bool]],
) -> None:
    """Each second: new requests, whether the report arrives, whether the worker restarts after it.

    What a worker counted after its last report that arrived dies with it; all else must be counted.
    """
    state = MergeState()
    merge(state, heard(report(sequence=0, uptime_s=0.0, fleets=[fleet(0)])), 0.0)
    requests, incarnation, uptime, counted, delivered = 0, 1, 0.0, 0.0, 0
    told = 0
    for second, (new, arrives, restarts) in enumerate(seconds, 1):
        requests += new
        uptime += 1.0
        if arrives:
            sent = report(
                sequence=int(uptime), uptime_s=uptime, incarnation=incarnation, fleets=[fleet(requests)]
            )
            merged = merge(state, heard(sent), float(second))
            delta = state.known["host/1/0"].delta
            assert delta is not None
            counted += delta.fleets["digits"].requests
            assert merged.fleets["digits"].rps >= 0
            told = requests
        if restarts:
            delivered += told
            requests, incarnation, uptime, told = 0, incarnation + 1, 0.0, 0
    assert counted == delivered + told


@given(st.lists(st.floats(1e-5, 100.0), min_size=1, max_size=200), st.integers(1, 5), st.integers(0, 99))
def test_however_latencies_are_split_over_workers_the_percentile_is_that_of_all(
    latencies: list[float], workers: int, seed: int
) -> None:
    rng = Random(seed)
    parts: list[list[float]] = [[] for _ in range(workers)]
    for each in latencies:
        rng.choice(parts).append(each)
    names = [f"host/1/{index}" for index in range(workers)]
    state = MergeState()
    merge(state, heard(*(report(name, sequence=1) for name in names)), 0.0)
    reports = [
        report(name, sequence=2, fleets=[fleet(len(part), latencies=part)])
        for name, part in zip(names, parts, strict=True)
    ]
    merged = merge(state, heard(*reports), 1.0)
    assert merged.fleets["digits"].p99_s == sketch.quantile(sketch_of(latencies), 0.99)


def test_requests_that_fell_back_are_in_both_fleets_and_once_in_all() -> None:
    def asked(requests: int, fell: int) -> FleetCounters:
        return fleet(requests, name="large", fallbacks={"small": {"no_place": fell}}, no_fallback={"key": 2})

    state, merged = after_first(
        report(sequence=1, fleets=[asked(100, 50), fleet(70, name="small")]),
        report(sequence=2, fleets=[asked(140, 80), fleet(105, name="small")]),
    )
    large, small = merged.fleets["large"], merged.fleets["small"]
    assert (large.rps, small.rps, merged.total.rps) == (40.0, 35.0, 45.0)
    assert merged.total.window_requests == 45
    fallback = large.fallbacks["small"]
    assert (fallback.per_s, fallback.lately, fallback.causes) == (30.0, 30, {"no_place": 80})
    assert large.no_fallback == {"key": 2}
    later = merge(state, heard(report(sequence=3, fleets=[asked(140, 80)])), 2.0 + WINDOW_S)
    assert later.fleets["large"].fallbacks["small"].lately == 0


def test_what_two_workers_saw_fall_back_is_added() -> None:
    counted = [
        fleet(10, name="large", fallbacks={"small": {"no_place": 3}, "other": {"deadline": 1}}),
        fleet(10, name="large", fallbacks={"small": {"no_place": 1, "deadline": 2}}),
    ]
    fallbacks = after_a_second_of_two(*counted).fleets["large"].fallbacks
    assert {to: one.causes for to, one in fallbacks.items()} == {
        "small": {"no_place": 4, "deadline": 2},
        "other": {"deadline": 1},
    }
    assert {to: one.per_s for to, one in fallbacks.items()} == {"small": 6.0, "other": 1.0}
