"""Table swaps: versions, refusals, names, and what survives."""

import msgspec
import pytest

from routing.balancing.attempt.outcome import Outcome
from routing.balancing.pool.pool import Rejection
from routing.balancing.pool.table import Table, TableRefused
from routing.contract.table import Manifest, Match, Version
from routing.shared.shm_counters import SharedCounters


def listing(*fleets, version=1, epoch=1, **more):
    return Manifest(epoch=epoch, version=version, fleets=dict.fromkeys(fleets, 1), **more)


@pytest.fixture
def table(make_snapshot):
    table = Table()
    table.apply_manifest(listing("digits", default="digits", aliases={"chat": "digits"}))
    table.apply_snapshot(make_snapshot(2))
    return table


# --- names ---------------------------------------------------------------------------------------


def test_a_fleet_is_found_by_name_and_alias(table):
    pool = table.fleets["digits"]
    assert table.by_name.get("digits") is table.by_name.get("chat") is table.default is pool
    assert table.by_name.get("unknown") is None


def test_a_fleet_is_found_by_an_adapter(table):
    table.apply_manifest(listing("digits", version=2, adapters={"sql": "digits", "late": "digits"}))
    assert table.by_name.get("sql") is table.fleets["digits"]


@pytest.mark.parametrize("what", ["aliases", "adapters"])
def test_another_name_never_hides_a_fleet(table, make_snapshot, what):
    table.apply_manifest(listing("digits", "chat", version=2, **{what: {"chat": "digits"}}))
    other = msgspec.structs.replace(make_snapshot(1), name="chat")
    table.apply_snapshot(other)
    assert table.by_name.get("chat") is table.fleets["chat"]


# --- versions ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epoch", "version", "taken"),
    [(1, 6, True), (1, 5, False), (1, 4, False), (2, 1, True), (0, 99, False)],
)
def test_a_later_epoch_wins_then_the_higher_version(make_snapshot, epoch, version, taken):
    table = Table()
    table.apply_manifest(listing("digits", version=5))
    table.apply_snapshot(make_snapshot(1, version=5))
    assert table.apply_manifest(listing("digits", version=version, epoch=epoch)) is taken
    assert table.apply_snapshot(make_snapshot(3, version=version, epoch=epoch)) is taken
    assert table.fleets["digits"].version == (Version(epoch, version) if taken else Version(1, 5))
    assert len(table.fleets["digits"].replicas) == (3 if taken else 1)


def test_only_a_manifest_removes_a_fleet(table, make_snapshot):
    pool = table.fleets["digits"]
    table.apply_snapshot(make_snapshot(0, version=2))
    assert table.by_name.get("digits") is pool
    attempt_refused = pool.begin(1.0, 1.0)
    assert isinstance(attempt_refused, Rejection)
    table.apply_manifest(listing(version=2))
    assert table.by_name.get("digits") is table.by_name.get("chat") is table.default is None
    assert pool.begin(1.0, 1.0).code == "fleet_removed"


def test_a_fleet_that_the_manifest_does_not_list_is_not_taken(table, make_snapshot):
    stray = msgspec.structs.replace(make_snapshot(1), name="stray")
    assert table.apply_snapshot(stray) is False
    assert "stray" not in table.fleets


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("replicas", "policy", "words"),
    [
        (2, {"strategy": "fastest"}, "there is no strategy 'fastest'"),
        (2, {"parameters": {"kappa": -1}}, "must be between 0 and 20"),
        (2, {"max_concurrency": 0}, "max_concurrency of fleet digits must be at least 1"),
        ([{"max_concurrency": 0}], {}, "max_concurrency of replica r0 must be at least 1"),
        ([{"weight": -1.0}], {}, "weight of replica r0 must be 0 or more"),
        ([{"url": "ftp://10.0.0.1"}], {}, "http://"),
        ([{}, {"uid": "uid-0"}], {}, "two replicas of fleet digits have the uid uid-0"),
    ],
)
def test_what_cannot_be_routed_from_is_refused_and_the_last_good_one_kept(
    table, make_snapshot, send, replicas, policy, words
):
    pool = table.fleets["digits"]
    with pytest.raises(TableRefused, match=words) as refused:
        table.apply_snapshot(make_snapshot(replicas, version=2, **policy))
    assert "fleet digits, version 1:2" in str(refused.value)
    assert pool.version == Version(1, 1)
    assert send(pool, 1.0) in {"r0", "r1"}
    assert table.apply_snapshot(make_snapshot(2, version=3))
    assert pool.version == Version(1, 3)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"default": "nobody"}, "default fleet 'nobody' is not among its fleets"),
        ({"aliases": {"chat": "nobody"}}, "alias 'chat' stands for 'nobody'"),
        ({"adapters": {"sql": "nobody"}}, "adapter 'sql' is of 'nobody'"),
        ({"matches": {"nobody": [Match(host="a.test")]}}, "hosts or paths lead to 'nobody'"),
    ],
)
def test_a_manifest_that_contradicts_itself_is_refused(table, changes, words):
    with pytest.raises(TableRefused, match=words):
        table.apply_manifest(listing("digits", version=2, **changes))
    assert table.version == Version(1, 1)


# --- live state over swaps -----------------------------------------------------------------------


def test_replicas_keep_their_state_while_uid_and_url_match(table, make_snapshot):
    pool = table.fleets["digits"]
    held = [pool.begin(2.0, 1.0) for _ in range(4)]
    kept, moved = pool.replicas
    table.apply_snapshot(
        make_snapshot([{"weight": 3.0, "name": "renamed"}, {"url": "http://10.9.9.9:1"}], version=2)
    )
    assert pool.replicas[0] is kept
    assert kept.name == "renamed"
    assert kept.in_flight == 2
    assert pool.replicas[1] is not moved
    assert pool.replicas[1].in_flight == 0
    for attempt in held:
        attempt.settle(Outcome.SUCCESS, 1.5)
    assert (kept.in_flight, moved.in_flight) == (0, 0)


def test_a_drained_replica_finishes_what_it_has(table, make_snapshot, send):
    pool = table.fleets["digits"]
    held = [pool.begin(1.0, 1.0) for _ in range(2)]
    table.apply_snapshot(make_snapshot([{"admin_state": "draining"}, {}], version=2))
    assert {send(pool, 1.1) for _ in range(50)} == {"r1"}
    assert pool.replicas[0].in_flight == 1
    for attempt in held:
        attempt.settle(Outcome.SUCCESS, 2.0)
    assert [replica.in_flight for replica in pool.replicas] == [0, 0]


def test_an_ejection_survives_a_swap(table, make_snapshot, fail, send):
    pool = table.fleets["digits"]
    table.apply_snapshot(make_snapshot(3, version=2, strategy="round_robin"))
    fail(pool, "r0", 5, 1.0)
    table.apply_snapshot(make_snapshot(3, version=3))
    assert "r0" not in {send(pool, 1.1) for _ in range(50)}


def test_a_replica_that_left_is_reported_until_its_last_request_ends(table, make_snapshot):
    pool = table.fleets["digits"]
    held = [pool.begin(1.0, 1.0) for _ in range(2)]
    table.apply_snapshot(make_snapshot(1, version=2))
    assert [replica.name for replica in pool.report(1.0).replicas] == ["r0", "r1"]
    for attempt in held:
        attempt.settle(Outcome.SUCCESS, 2.0)
    assert [replica.name for replica in pool.report(2.0).replicas] == ["r0"]


def test_a_replica_that_comes_back_in_time_has_its_requests_still(table, make_snapshot):
    pool = table.fleets["digits"]
    held = [pool.begin(1.0, 1.0) for _ in range(2)]
    gone = pool.replicas[1]
    table.apply_snapshot(make_snapshot(1, version=2))
    table.apply_snapshot(make_snapshot(2, version=3))
    assert pool.replicas[1] is gone
    assert gone.in_flight == 1
    for attempt in held:
        attempt.settle(Outcome.SUCCESS, 2.0)
    assert pool.report(2.0).replicas[1].in_flight == 0


def test_shared_counts_are_given_back_with_the_last_request(make_snapshot):
    parent = SharedCounters.create(workers=2, replicas=8)
    table = Table(SharedCounters.attach(parent.fd, 0))
    table.apply_manifest(listing("digits"))
    table.apply_snapshot(make_snapshot(3))
    pool = table.fleets["digits"]
    assert parent.used() == 3
    attempt = pool.begin(1.0, 1.0)
    table.apply_manifest(listing(version=2))
    assert parent.used() == 1
    attempt.settle(Outcome.SUCCESS, 1.1)
    assert parent.used() == 0


def test_a_fleet_that_is_removed_and_back_while_requests_run_is_routed_at_once(make_snapshot):
    shared = SharedCounters.create(workers=2)
    table = Table(SharedCounters.attach(shared.fd, 0))
    table.apply_manifest(listing("digits"))
    table.apply_snapshot(make_snapshot(1))
    running = table.fleets["digits"].begin(1.0, 10.0)
    table.apply_manifest(listing(version=2))

    table.apply_manifest(listing("digits", version=3))
    assert table.apply_snapshot(make_snapshot(1, version=3))
    attempt = table.fleets["digits"].begin(1.0, 11.0)
    assert not isinstance(attempt, Rejection)

    running.settle(Outcome.SUCCESS, 12.0)
    attempt.settle(Outcome.SUCCESS, 12.0)
    table.apply_snapshot(make_snapshot(1, version=4))
    # The replica, and what the host knows of the fleet.
    assert shared.used() == 2
