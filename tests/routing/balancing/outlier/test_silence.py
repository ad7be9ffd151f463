"""A replica that hangs, or never comes to an end: seen early in a fast fleet, else by ``stall_s``."""

from math import inf

import pytest

from routing.balancing.attempt.outcome import Outcome


class Endpoint:
    """Knows when each request was sent and when something was last heard; notes what is asked of it."""

    def __init__(self):
        self.requests = []
        """``[sent, heard]`` of each, and its work where that matters."""
        self.freed = []
        self.freed_before = []
        self.written_off = []
        self.attempts = []
        """Those that are written off as silent."""

    def silent_requests(self, now, for_s, work_s=0.0, after=0.0):
        old = silent = 0
        for sent, heard, *work in self.requests:
            limit_s = max(for_s, work_s * sum(work))
            if sent > after and now - sent > limit_s:
                old += 1
                silent += now - heard > limit_s
        return old, silent

    def write_off_silent(self, now, for_s, work_s, before):
        waiting = [one for one in self.requests if one[0] < before]
        silent = [one for one in waiting if now - one[1] > max(for_s, work_s * sum(one[2:]))]
        self.written_off.append(silent)
        for attempt in self.attempts if silent else ():
            if attempt.started < before:
                attempt.write_off()
        return len(waiting)

    def free_requests(self, words, *, all_of_them, before=inf):
        self.freed.append((words, all_of_them))
        self.freed_before.append(before)


@pytest.fixture
def pool(make_pool):
    """Three replicas that answer in 50 ms; the fleet's p99 is known."""
    pool = make_pool(3, strategy="round_robin", slow_start_s=0)
    serve(pool, 1.0, 25.0)
    assert 0.03 < pool.speed.p99_s < 0.1
    for replica in pool.replicas:
        replica.endpoint = Endpoint()
    return pool


def serve(pool, begin, end, hanging=()):
    """Fifty requests a second, answered in 50 ms; those at a hanging replica stay."""
    left, now = [], begin
    while now < end:
        attempt = pool.begin(1.0, now)
        replica = attempt.replica
        if replica.name in hanging:
            left.append(attempt)
            replica.endpoint.requests.append([now, now])
        else:
            attempt.settle(Outcome.SUCCESS, now + 0.05)
        now += 0.02
    return left


def settle_all(attempts, outcome, now):
    for attempt in attempts:
        attempt.settle(outcome, now)


def test_silence_on_all_requests_is_seen_early(pool):
    left = serve(pool, 25.0, 26.5, hanging=["r0"])
    assert not pool.replicas[0].ejection.until
    left += serve(pool, 26.5, 28.0, hanging=["r0"])
    state = pool.replicas[0].ejection
    assert state.until
    assert "requests have heard nothing for 2.0 s, while other replicas answer" in state.reason
    assert state.stalled
    (words, all_of_them), *_ = pool.replicas[0].endpoint.freed
    assert "stalled" in words
    assert not all_of_them
    settle_all(left, Outcome.LOST, 28.5)


def test_not_where_only_two_wait(pool):
    waiting = []
    while len(waiting) < 2:
        attempt = pool.begin(1.0, 25.0)
        if attempt.replica.name == "r0":
            attempt.replica.endpoint.requests.append([25.0, 25.0])
            waiting.append(attempt)
        else:
            attempt.settle(Outcome.SUCCESS, 25.05)
    pool._pick = lambda found, *_: found[1]
    for i in range(200):
        now = 25.0 + i / 20
        attempt = pool.begin(1.0, now)
        if attempt.replica.name == "r0":
            # It is tried out once a while.
            waiting.append(attempt)
        else:
            attempt.settle(Outcome.SUCCESS, now + 0.05)
    assert not pool.replicas[0].ejection.until
    settle_all(waiting, Outcome.SUCCESS, 35.0)


def test_not_where_the_whole_fleet_is_silent(pool):
    left = serve(pool, 25.0, 29.0, hanging=["r0", "r1", "r2"])
    assert not any(replica.ejection.until for replica in pool.replicas)
    settle_all(left, Outcome.SUCCESS, 29.0)


def test_not_where_one_of_them_is_heard(pool):
    left = serve(pool, 25.0, 26.0, hanging=["r0"])
    for i in range(20):
        now = 26.0 + i / 5
        pool.replicas[0].endpoint.requests[0][1] = now
        left += serve(pool, now, now + 0.2, hanging=["r0"])
    assert not pool.replicas[0].ejection.until
    settle_all(left, Outcome.SUCCESS, 30.0)


def test_not_where_the_requests_are_large_for_their_time(make_pool):
    """Three long prompts at one replica, while the others have short ones: the larger, the more patience."""
    pool = make_pool(3, strategy="round_robin", slow_start_s=0)
    serve(pool, 1.0, 25.0)
    for replica in pool.replicas:
        replica.endpoint = Endpoint()
    long = []
    while len(long) < 3:
        attempt = pool.begin(100.0, 25.0)
        if attempt.replica.name == "r0":
            attempt.replica.endpoint.requests.append([25.0, 25.0, 100.0])
            long.append(attempt)
        else:
            attempt.settle(Outcome.CANCELLED, 25.0)
    others_serve(pool, 25.0, 38.0)
    assert not pool.replicas[0].ejection.count
    others_serve(pool, 38.0, 45.0)
    assert pool.replicas[0].ejection.count, "nothing takes so long: three times 100 requests of 50 ms"
    settle_all(long, Outcome.LOST, 45.0)


def others_serve(pool, begin, end):
    """Fifty requests a second at the other replicas; r0 finishes none."""
    now = begin
    while now < end:
        attempt = pool.begin(1.0, now)
        mine = attempt.replica.name == "r0"
        attempt.settle(Outcome.CANCELLED if mine else Outcome.SUCCESS, now if mine else now + 0.05)
        now += 0.02


def test_a_worker_that_was_held_has_heard_nothing_because_of_itself(pool):
    """It slept for ten seconds. What came meanwhile is read after the first look at the replicas."""
    left = serve(pool, 25.0, 26.0, hanging=["r0"])
    serve(pool, 36.0, 36.1)
    assert not any(replica.ejection.until for replica in pool.replicas)
    assert not pool.replicas[0].endpoint.freed
    left += serve(pool, 36.1, 38.5, hanging=["r0"])
    assert pool.replicas[0].ejection.until, "silent for another two seconds, in which it listened"
    settle_all(left, Outcome.LOST, 39.0)


def long_streams(pool, silent_ones):
    """Each replica has four streams that do not end for a minute; at r0 some of them pause."""
    streams = [pool.begin(1.0, 25.0) for _ in range(12)]
    mine = [attempt for attempt in streams if attempt.replica.name == "r0"]
    requests = pool.replicas[0].endpoint.requests = [[25.0, 25.0] for _ in mine]
    now = 25.0
    while now < 80.0:
        for attempt in streams:
            attempt.heard(now)
        for request in requests[silent_ones:]:
            request[1] = now
        pool.refresh(now)
        now += 0.5
    return streams


@pytest.mark.parametrize(("silent_ones", "is_out"), [(1, False), (3, True)])
def test_most_must_be_silent_where_nothing_ends(pool, silent_ones, is_out):
    """One pause of 30 s among long streams is none of the replica's."""
    left = long_streams(pool, silent_ones)
    assert bool(pool.replicas[0].ejection.until) == is_out
    settle_all(left, Outcome.SUCCESS, 80.0)


def test_the_only_replica_stays(make_pool):
    pool = make_pool(1, strategy="round_robin", slow_start_s=0)
    serve(pool, 1.0, 25.0)
    pool.replicas[0].endpoint = endpoint = Endpoint()
    left = serve(pool, 25.0, 100.0, hanging=["r0"])
    assert not pool.replicas[0].ejection.until
    assert not endpoint.freed
    settle_all(left, Outcome.SUCCESS, 100.0)


def test_one_of_two_is_seen_early_too(make_pool):
    pool = make_pool(2, strategy="round_robin", slow_start_s=0)
    serve(pool, 1.0, 25.0)
    for replica in pool.replicas:
        replica.endpoint = Endpoint()
    left = serve(pool, 25.0, 28.0, hanging=["r0"])
    assert pool.replicas[0].ejection.until
    assert not pool.replicas[1].ejection.until
    settle_all(left, Outcome.LOST, 28.5)


def test_where_none_may_be_ejected_its_requests_are_freed_all_the_same(make_pool):
    never = {"max_ejected_percent": 0}
    pool = make_pool(3, strategy="round_robin", slow_start_s=0, ejection=never)
    serve(pool, 1.0, 25.0)
    for replica in pool.replicas:
        replica.endpoint = Endpoint()
    left = serve(pool, 25.0, 28.0, hanging=["r0"])
    assert not pool.replicas[0].ejection.until
    assert pool.replicas[0].endpoint.freed
    settle_all(left, Outcome.LOST, 28.5)


def test_heads_and_then_nothing_is_silence_too(make_pool):
    """By ``stall_s``, though each new request is begun to be answered; and no byte lets it back."""
    pool = make_pool(3, strategy="round_robin", slow_start_s=0, timeouts={"stall_s": 5.0})
    for replica in pool.replicas:
        replica.endpoint = Endpoint()
    left, now = [], 1.0
    while now < 7.0:
        attempt = pool.begin(1.0, now)
        if attempt.replica.name == "r0":
            attempt.first_byte(now)
            attempt.replica.endpoint.requests.append([now, now])
            left.append(attempt)
        else:
            attempt.settle(Outcome.SUCCESS, now + 0.05)
        now += 0.05
    state = pool.replicas[0].ejection
    assert state.until
    assert "no request was finished" in state.reason
    left[0].heard(now)
    pool.refresh(now + 0.1)
    assert state.until
    settle_all(left, Outcome.TIMEOUT, now)


def test_a_probe_request_that_hangs_has_decided(pool):
    """Its response has begun, so that it stays; the next one is tried all the same."""
    left = serve(pool, 25.0, 28.0, hanging=["r0"])
    state, endpoint = pool.replicas[0].ejection, pool.replicas[0].endpoint
    probe = pool.begin(1.0, state.until)
    assert probe.probe
    sent = probe.started
    probe.first_byte(sent + 0.01)
    state.stalled = False
    endpoint.requests.append([sent, sent + 0.01])
    pool.refresh(sent + 1.0)
    assert state.probing
    serve(pool, sent + 1.0, sent + 2.5)
    assert not state.probing
    assert "its probe request has heard nothing for 2.0 s" in state.reason
    assert state.until <= sent + 5.0
    again = pool.begin(1.0, state.until)
    assert again.probe
    probe.settle(Outcome.TIMEOUT, state.until + 0.1)
    assert state.probing, "the first one decides nothing any more"
    again.settle(Outcome.SUCCESS, state.until + 0.2)
    assert not state.until
    settle_all(left, Outcome.LOST, 60.0)


def down(make_snapshot, **first):
    return make_snapshot([{"health": "down", **first}, {}, {}, {}], version=2, strategy="round_robin")


def test_requests_of_a_replica_that_is_down_are_freed_once_it_is_silent(make_pool, make_snapshot):
    pool = make_pool(4, strategy="round_robin")
    attempts = [pool.begin(1.0, 10.0) for _ in range(4)]
    [mine] = [attempt for attempt in attempts if attempt.replica.name == "r0"]
    mine.replica.endpoint = endpoint = Endpoint()
    mine.heard(11.0)
    pool.replace(down(make_snapshot))
    pool.refresh(12.0)
    assert not endpoint.freed
    pool.refresh(13.5)
    [(words, all_of_them)] = endpoint.freed
    assert "its probes fail" in words
    assert all_of_them
    settle_all(attempts, Outcome.SUCCESS, 14.0)


def test_not_where_it_is_drained(make_pool, make_snapshot):
    pool = make_pool(4, strategy="round_robin")
    attempts = [pool.begin(1.0, 10.0) for _ in range(4)]
    pool.replicas[0].endpoint = endpoint = Endpoint()
    pool.replace(down(make_snapshot, admin_state="draining"))
    pool.refresh(20.0)
    assert not endpoint.freed
    settle_all(attempts, Outcome.SUCCESS, 21.0)


def test_not_where_health_is_ignored(make_pool, make_snapshot):
    """In panic mode the probes are more likely wrong than the replicas."""
    pool = make_pool(4, strategy="round_robin")
    attempts = [pool.begin(1.0, 10.0) for _ in range(4)]
    pool.replicas[0].endpoint = endpoint = Endpoint()
    pool.replace(make_snapshot([*[{"health": "down"}] * 3, {}], version=2, strategy="round_robin"))
    pool.refresh(20.0)
    assert not endpoint.freed
    settle_all(attempts, Outcome.SUCCESS, 21.0)
