"""Locality: requests stay at the proxy's own site, and what is too much for it goes to the others."""

from collections import Counter
from random import Random

import pytest

from routing.balancing import strategies
from routing.balancing.attempt.outcome import Outcome
from routing.balancing.balancer import Balancer
from routing.balancing.locality.spillover import spill_share
from routing.balancing.pool.due_pick import Due
from routing.balancing.pool.pool import DEQUEUED, NEW, Attempt, Pool, Rejection
from routing.contract.policy import Locality, Policy, Queue
from routing.contract.table import ReplicaSpec
from routing.shared.shm_counters import SharedCounters

EAST, WEST = {"site": "east"}, {"site": "west"}
DOWN = {"health": "down"}


@pytest.fixture
def seen_from_east(make_snapshot):
    """``seen_from_east([EAST, WEST], max_concurrency=4)``: the pool of a proxy in the east."""

    def make(replicas, shared=None, site="east", **policy):
        return Pool(make_snapshot(replicas, **policy), shared, Random(1), site=site)

    return make


def begin(pool, count, now=1.0, until=None, **given):
    """So many requests at once, none of which ends; names of the replicas, with how many each got."""
    due = None if until is None else Due(until)
    found = [pool.begin(1.0, now, due=due, **given) for _ in range(count)]
    return Counter(one.replica.name if isinstance(one, Attempt) else one.code for one in found)


def answered(pool, seconds, now=1.0, rounds=20):
    """Teach the pool: each replica named answers in so many seconds."""
    for replica in pool.replicas:
        for _ in range(rounds):
            pool.speed.learn(replica, seconds[replica.name], 1.0, now)
    pool.refresh(now)


# --- how much goes on -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("busy", "elsewhere", "above", "share"),
    [
        (0.0, 0.0, 0.8, 0.0),
        (0.8, 0.0, 0.8, 0.0),
        (0.9, 0.0, 0.8, 0.5),
        (1.0, 0.0, 0.8, 1.0),
        (1.7, 0.5, 0.8, 1.0),
        (0.9, 0.9, 0.8, 0.0),
        (0.9, 1.2, 0.8, 0.0),
        (0.25, 0.0, 0.0, 0.25),
        (0.999, 0.0, 1.0, 0.0),
        (1.0, 0.0, 1.0, 0.0),
        (1.1, 0.0, 1.0, 1.0),
    ],
)
def test_only_the_part_above_goes_on_and_only_to_where_less_goes_on(busy, elsewhere, above, share):
    assert spill_share(busy, elsewhere, above) == pytest.approx(share)


def test_a_site_that_is_not_busy_keeps_its_requests(seen_from_east):
    pool = seen_from_east([EAST, EAST, WEST, WEST], max_concurrency=5)
    assert begin(pool, 9).keys() == {"r0", "r1"}
    assert pool.report(1.0).spilled == 0


def test_a_full_site_hands_on_all_and_none_waits(seen_from_east):
    pool = seen_from_east([EAST, WEST, WEST], max_concurrency=4)
    names = begin(pool, 12)
    assert names == {"r0": 4, "r1": 4, "r2": 4}
    assert (pool.report(1.0).spilled, pool.report(1.0).stayed) == (8, 4)


@pytest.mark.parametrize("strategy", strategies.names())
def test_with_any_strategy(seen_from_east, strategy):
    pool = seen_from_east([EAST, EAST, WEST, WEST], strategy=strategy, max_concurrency=10)
    assert begin(pool, 16).keys() == {"r0", "r1"}
    assert begin(pool, 24).keys() <= {"r0", "r1", "r2", "r3"}
    assert begin(pool, 1) == {"busy": 1}


def test_it_settles_between_the_threshold_and_full(seen_from_east):
    """100 places here, requests of 1 s: 120 a second are a fifth too many for them."""
    pool = seen_from_east([EAST] * 4 + [WEST] * 4, max_concurrency=25)
    running, here, near = [], [], 0
    for number in range(12_000):
        now = number / 120
        while running and running[0][0] <= now:
            _, attempt = running.pop(0)
            attempt.settle(Outcome.SUCCESS, now)
        attempt = pool.begin(1.0, now)
        running.append((now + 1.0, attempt))
        if now > 10:
            near += attempt.replica.spec.site == "east"
            here.append(sum(one.in_flight for one in pool.replicas if one.spec.site == "east"))
    # As many begin here as end, a second: 120 · (1 − (u − 0.8) / 0.2) = 100 · u.
    mean = sum(here) / len(here)
    assert mean == pytest.approx(85.7, abs=1.5)
    assert max(here) < 97
    assert near / len(here) == pytest.approx(mean / 120, abs=0.02)


def test_batching_servers_are_left_when_others_answer_five_times_as_soon(seen_from_east):
    pool = seen_from_east([EAST, EAST, WEST])
    assert begin(pool, 8).keys() == {"r0", "r1"}
    names = begin(pool, 200)
    assert 15 <= names["r2"] <= 40


def test_a_slow_site_of_batching_servers_is_left_sooner(seen_from_east):
    pool = seen_from_east([EAST, WEST])
    answered(pool, {"r0": 10.0, "r1": 1.0})
    assert begin(pool, 1) == {"r1": 1}
    assert begin(pool, 40)["r1"] >= 12


def test_the_threshold_can_be_changed_while_it_runs(seen_from_east, make_snapshot):
    pool = seen_from_east([EAST, WEST], max_concurrency=100)
    assert begin(pool, 50) == {"r0": 50}
    pool.replace(make_snapshot([EAST, WEST], version=2, max_concurrency=100, locality={"spill_above": 0.25}))
    assert begin(pool, 20)["r1"] >= 3


# --- who is near ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("replicas", "site", "policy"),
    [
        ([EAST, WEST], "", {}),
        ([{}, {}], "east", {}),
        ([WEST, {"site": "south"}], "east", {}),
        ([EAST, WEST], "east", {"locality": {"prefer": "none"}}),
        ([EAST, EAST], "east", {}),
    ],
)
def test_where_sites_say_nothing_all_are_alike(seen_from_east, replicas, site, policy):
    pool = seen_from_east(replicas, site=site, **policy)
    assert begin(pool, 10) == {"r0": 5, "r1": 5}
    assert pool._slow_path.sites is None
    assert (pool.report(1.0).stayed, pool.report(1.0).spilled) == (0, 0)
    assert all(not said.reasons for said in pool.explain(1.0))


def test_replicas_without_a_site_are_near_to_everybody(seen_from_east):
    pool = seen_from_east([{}, EAST, WEST], max_concurrency=10)
    assert begin(pool, 12).keys() == {"r0", "r1"}


def test_nobody_can_be_asked_here_so_the_others_are_at_once(seen_from_east, make_snapshot):
    pool = seen_from_east([EAST | {"admin_state": "draining"}, WEST, WEST])
    assert begin(pool, 6) == {"r1": 3, "r2": 3}
    assert pool.report(1.0).spilled == 6
    pool.replace(make_snapshot([EAST, WEST, WEST], version=2))
    assert begin(pool, 3, now=2.0)["r0"] == 3
    assert pool.report(2.0).spilled == 6


def test_in_panic_all_sites_are_asked_alike(seen_from_east):
    pool = seen_from_east([EAST | DOWN, EAST | DOWN, EAST, WEST | DOWN, WEST | DOWN])
    assert begin(pool, 10) == {f"r{number}": 2 for number in range(5)}


def test_a_site_that_is_dead_is_no_panic_however_many_of_the_fleet_were_there(seen_from_east):
    """Half of another site's are ready: of that the probes are right, and so of this."""
    replicas = [EAST | DOWN, EAST | DOWN, EAST | DOWN, WEST, WEST | DOWN]
    assert begin(seen_from_east(replicas), 10) == {"r3": 10}
    assert begin(seen_from_east([*replicas, EAST, EAST | DOWN]), 3) == {"r5": 3}
    # Nor of the own site when the others are dead. Those of no site are counted there.
    assert begin(seen_from_east([EAST, {} | DOWN, WEST | DOWN, WEST | DOWN, WEST | DOWN]), 10) == {"r0": 10}
    seen = seen_from_east([EAST | DOWN, EAST | DOWN, {}, WEST | DOWN])
    assert begin(seen, 8) == {f"r{number}": 2 for number in range(4)}
    # Where sites do not matter, the fleet is judged as a whole.
    every = {f"r{number}": 2 for number in range(5)}
    assert begin(seen_from_east(replicas, site=""), 10) == every
    assert begin(seen_from_east(replicas, locality={"prefer": "none"}), 10) == every


def test_how_many_may_be_ejected_is_of_those_that_are_not_dead(seen_from_east, fail):
    """Of two that are left, one; in panic it would be two of five."""
    replicas = [EAST | DOWN, EAST | DOWN, EAST | DOWN, WEST, WEST]
    pool = seen_from_east(replicas, strategy="round_robin")
    fail(pool, "r3", 5, 1.0)
    fail(pool, "r4", 5, 1.1)
    assert begin(pool, 4, now=1.2) == {"r4": 4}


def test_ejection_here_leads_elsewhere_and_back(seen_from_east, fail):
    pool = seen_from_east([EAST, WEST, WEST], ejection={"max_ejected_percent": 50})
    fail(pool, "r0", 5, 1.0)
    assert begin(pool, 4, now=1.1).keys() <= {"r1", "r2"}
    probe = pool.begin(1.0, 30.0)
    assert (probe.replica.name, probe.probe) == ("r0", True)
    probe.settle(Outcome.SUCCESS, 30.1)
    assert begin(pool, 1, now=31.0) == {"r0": 1}


# --- what goes on for other reasons -----------------------------------------------------------------


def test_retries_go_to_the_own_site_first(seen_from_east):
    pool = seen_from_east([EAST, EAST, WEST], max_concurrency=10)
    first = pool.begin(1.0, 1.0)
    second = pool.begin(1.0, 1.0, (first.replica,))
    assert {first.replica.name, second.replica.name} == {"r0", "r1"}
    third = pool.begin(1.0, 1.0, (first.replica, second.replica))
    assert third.replica.name == "r2"


def test_a_client_that_waits_too_short_a_time_is_served_elsewhere(seen_from_east):
    pool = seen_from_east([EAST, WEST])
    answered(pool, {"r0": 3.0, "r1": 1.0})
    assert begin(pool, 1, until=3.0) == {"r1": 1}
    assert begin(pool, 1, until=6.0) == {"r0": 1}
    # Neither can: as usual.
    assert begin(pool, 1, until=1.5) == {"r0": 1}


def test_who_cannot_wait_long_is_served_elsewhere_where_estimates_are_corrected_too(seen_from_east):
    pool = seen_from_east([EAST, WEST])
    pool.speed.calibration.factors = {1: 1.0}
    answered(pool, {"r0": 3.0, "r1": 1.0})
    assert pool.speed.calibration.factors
    assert [begin(pool, 1, until=time) for time in (3.0, 6.0)] == [{"r1": 1}, {"r0": 1}]


def test_what_would_be_too_late_elsewhere_does_not_spill(seen_from_east):
    pool = seen_from_east([EAST, WEST], max_concurrency=2)
    answered(pool, {"r0": 1.0, "r1": 9.0})
    assert begin(pool, 2, until=9.0) == {"r0": 2}
    # It waits here, where it still ends in time. Who cannot be in time anywhere goes where there is a place.
    assert begin(pool, 1, until=5.0) == {"busy": 1}
    assert begin(pool, 1, until=1.5) == {"r1": 1}


def test_waiting_for_a_place_counts_as_time(seen_from_east):
    pool = seen_from_east([EAST, WEST], max_concurrency=1, locality={"spill_above": 1.0})
    answered(pool, {"r0": 2.0, "r1": 3.0})
    assert begin(pool, 1) == {"r0": 1}
    assert begin(pool, 1, until=4.5) == {"r1": 1}


@pytest.mark.parametrize("strategy", ["least_expected_work", "round_robin"])
@pytest.mark.parametrize("turn", [NEW, DEQUEUED])
def test_nobody_waits_here_while_there_is_a_place_elsewhere(seen_from_east, strategy, turn):
    # Utilisation says nothing here: the own site may be full to the last place before it is left.
    pool = seen_from_east([EAST, WEST], max_concurrency=1, strategy=strategy, locality={"spill_above": 1.0})
    assert begin(pool, 1) == {"r0": 1}
    assert begin(pool, 1, turn=turn) == {"r1": 1}
    refusal = pool.begin(1.0, 1.0, turn=turn)
    assert isinstance(refusal, Rejection)
    assert refusal.max_wait_s == Queue().timeout_s


def test_a_better_place_here_may_be_worth_the_wait(seen_from_east):
    """As without sites: 400 units wait for a fast replica rather than take a slow one that is free."""
    fast, slow = EAST | {"weight": 8.0}, EAST | {"weight": 1.0}
    pool = seen_from_east([fast, slow, WEST | {"weight": 1.0}], max_concurrency=1)
    pool.begin(1.0, 1.0)
    waits = pool.begin(400.0, 1.0)
    assert isinstance(waits, Rejection)
    assert waits.preferred is pool.replicas[0]
    pool = seen_from_east([fast, slow, WEST | {"weight": 8.0}], max_concurrency=1)
    pool.begin(1.0, 1.0)
    assert pool.begin(400.0, 1.0).replica.name == "r2"


def test_what_other_workers_send_counts(seen_from_east):
    block = SharedCounters.create(workers=2, replicas=8)
    one, two = (
        seen_from_east([EAST, WEST], SharedCounters.attach(block.fd, number), max_concurrency=100)
        for number in (0, 1)
    )
    while one.replicas[0].in_flight < 95:
        one.begin(1.0, 1.0)
    assert begin(two, 5, now=1.1)["r1"] >= 3


def test_keys_spill_rather_than_requests(seen_from_east):
    pool = seen_from_east([EAST, WEST], max_concurrency=100)
    while pool.replicas[0].in_flight < 90:
        pool.begin(1.0, 1.0)
    sites, step = pool._slow_path.sites, 1 << 57
    candidates = pool._eligible
    sides = [sites.side(candidates, 1.0, 1.0, Random(1), (number * step,)) for number in range(128)]
    gone = [side[0].name == "r1" for side in sides]
    assert gone == [True] * 64 + [False] * 64
    for first in (0, 127):
        alike = [sites.side(candidates, 1.0, 1.0, Random(1), (first * step, n * step)) for n in range(128)]
        assert [side[0].name == "r1" for side in alike] == gone, "prompts that all begin alike"


def test_a_large_site_is_summed_up_every_few_ms(seen_from_east):
    pool = seen_from_east([EAST] * 100 + [WEST], max_concurrency=1)
    assert begin(pool, 90)["r100"] == 0
    assert begin(pool, 6, now=1.0)["r100"] == 0
    assert begin(pool, 4, now=1.01)["r100"] == 1


# --- telling ----------------------------------------------------------------------------------------


def test_when_others_are_asked_is_said(seen_from_east):
    pool = seen_from_east([EAST, WEST, WEST | {"health": "down"}], locality={"spill_above": 0.7})
    near, far, down = pool.explain(1.0)
    assert near.reasons == []
    assert (far.eligible, far.asked) == (True, True)
    assert far.reasons == ["at west: asked while east is more than 70 % busy"]
    assert down.reasons == ["down: its probes fail"]


def test_spilled_ones_are_still_counted_when_their_replica_has_left(seen_from_east, make_snapshot):
    pool = seen_from_east([EAST, WEST], max_concurrency=1)
    begin(pool, 2)
    pool.replace(make_snapshot([EAST], version=2))
    assert (pool.report(1.0).stayed, pool.report(1.0).spilled) == (1, 1)
    pool.replace(make_snapshot([EAST, WEST], version=3, locality={"prefer": "none"}, max_concurrency=9))
    begin(pool, 9, now=2.0)
    assert (pool.report(2.0).stayed, pool.report(2.0).spilled) == (1, 1)


def test_as_a_library():
    specs = [ReplicaSpec(uid=site, name=site, url=f"http://{site}:1", site=site) for site in ("east", "west")]
    policy = Policy(max_concurrency=1, locality=Locality(spill_above=0.5))
    balancer = Balancer(specs, policy=policy, rng=Random(1), site="west")
    with balancer.pick() as first, balancer.pick() as second:
        assert (first.name, second.name) == ("west", "east")
