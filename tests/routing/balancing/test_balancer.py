"""The pool as a library: picks, how calls end, threads."""

import threading
from collections import Counter
from operator import attrgetter

import pytest

from routing.balancing.balancer import Balancer, NoReplica
from routing.contract.policy import Ejection, Policy
from tests.clock import Clock

URLS = ["http://10.0.0.1:8000", "http://10.0.0.2:8000", "http://10.0.0.3:8000/base"]


def test_a_call_is_counted_while_it_runs():
    balancer = Balancer(URLS)
    with balancer.pick(work=5) as replica:
        assert replica.in_flight == 1
        assert replica.work == 5
    assert (replica.in_flight, replica.succeeded) == (0, 1)


def test_weights_and_a_strategy_may_be_given(make_spec):
    specs = [make_spec(0, weight=3.0), make_spec(1)]
    balancer = Balancer(specs, strategy="round_robin")
    picks = Counter()
    for _ in range(400):
        with balancer.pick() as replica:
            picks[replica.name] += 1
    assert picks == {"r0": 300, "r1": 100}


@pytest.mark.parametrize(
    ("error", "counter"),
    [
        (ConnectionRefusedError(), "failed"),
        (ConnectionResetError(), "failed"),
        (TimeoutError(), "failed"),
        (RuntimeError(), "failed"),
        (KeyboardInterrupt(), "outcomes.cancelled"),
    ],
)
def test_an_exception_is_passed_on_and_counted(error, counter):
    balancer = Balancer(URLS)
    with pytest.raises(type(error)), balancer.pick() as replica:
        raise error
    assert replica.in_flight == 0
    assert attrgetter(counter)(replica) == 1


def test_failures_eject_and_a_probe_lets_back():
    clock = Clock(1.0)
    policy = Policy(ejection=Ejection(consecutive_failures=2, max_ejected_percent=100))
    balancer = Balancer(URLS[:2], strategy="round_robin", policy=policy, clock=clock)
    for _ in range(4):
        try:
            with balancer.pick() as replica:
                if replica.host == "10.0.0.1":
                    raise ConnectionResetError
        except ConnectionResetError:
            pass
    assert [explained.eligible for explained in balancer.explain()] == [False, True]
    clock.now += 7
    with balancer.pick() as replica:
        assert replica.host == "10.0.0.1"
    assert all(explained.eligible for explained in balancer.explain())


def call(balancer, fails_at=(), tried=(), **given):
    """One call, which fails at some replicas; at which it was."""
    try:
        with balancer.pick(tried=tried, **given) as replica:
            if replica.name in fails_at:
                raise RuntimeError
    except RuntimeError:
        pass
    return replica


def ejected(balancer):
    return [explained.name for explained in balancer.explain() if not explained.eligible]


@pytest.fixture
def four(make_spec):
    return Balancer([make_spec(number) for number in range(4)], strategy="round_robin", clock=Clock(1.0))


ALL = ("r0", "r1", "r2", "r3")


def test_calls_of_one_client_that_fail_everywhere_eject_nobody(four):
    for number in range(200):
        if number % 11:
            call(four, ALL, client="poison")
        else:
            call(four, client=b"app")
    assert ejected(four) == []


def test_calls_of_nobody_in_particular_eject_where_they_fail(four):
    for _ in range(200):
        call(four, ALL)
    assert len(ejected(four)) == 2


def test_a_broken_replica_is_ejected_whoever_calls(four):
    for number in range(40):
        call(four, ("r1",), client=("app", "other")[number % 2])
    assert ejected(four) == ["r1"]


def test_what_a_repeated_call_meets_elsewhere_says_whose_fault_it_was(four):
    """Two of four are broken, and all calls are one client's: its repeated calls clear it."""
    failed = Counter()
    while max(failed.values(), default=0) < 5:
        tried = ()
        while (replica := call(four, ("r1", "r2"), tried, client="app")).name in ("r1", "r2"):
            failed[replica.name] += 1
            tried = (*tried, replica)
    assert set(ejected(four)) == {name for name in failed if failed[name] >= 5}


def test_calls_that_are_not_repeated_are_asked_whose_they_are_once_a_row_is_held_against_them(four):
    for _ in range(60):
        call(four, ("r1", "r2"), client="app")
    assert ejected(four) == ["r1", "r2"]


def test_nobody_to_pick_is_said_in_words(make_spec):
    balancer = Balancer([make_spec(0, admin_state="draining")])
    with pytest.raises(NoReplica, match="1 replica of fleet library: 1 draining"), balancer.pick():
        pass


def test_replicas_can_be_replaced_while_calls_run():
    balancer = Balancer(URLS)
    with balancer.pick() as replica:
        balancer.replace(url for url in URLS if replica.host not in url)
        for _ in range(20):
            with balancer.pick() as other:
                assert other.host != replica.host


@pytest.mark.parametrize("bad", [["10.0.0.1:80"], ["ftp://10.0.0.1"]])
def test_a_bad_url_is_refused(bad):
    with pytest.raises(ValueError, match="http"):
        Balancer(bad)


def test_a_bad_strategy_is_refused():
    with pytest.raises(ValueError, match="there is no strategy"):
        Balancer(URLS, strategy="best")


def test_threads_leave_nothing_behind():
    balancer = Balancer(URLS)
    seen, problems = [], []

    def work():
        try:
            for _ in range(500):
                with balancer.pick(work=0.1) as replica:
                    seen.append(replica)
        except Exception as error:  # a thread's failure has to reach the test
            problems.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert len(seen) == 2000
    assert {(replica.in_flight, replica.work) for replica in seen} == {(0, 0.0)}
    assert sum(replica.succeeded for replica in set(seen)) == 2000
