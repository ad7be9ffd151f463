"""The pool as a library: picks, how calls end, threads."""

import threading
from collections import Counter

import pytest

from routing.balancer import Balancer, NoReplica
from routing.contract.policy import Ejection, Policy

URLS = ["http://10.0.0.1:8000", "http://10.0.0.2:8000", "http://10.0.0.3:8000/base"]


class Clock:
    def __init__(self):
        self.now = 1.0

    def __call__(self):
        return self.now


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
        (KeyboardInterrupt(), "cancelled"),
    ],
)
def test_an_exception_is_passed_on_and_counted(error, counter):
    balancer = Balancer(URLS)
    with pytest.raises(type(error)), balancer.pick() as replica:
        raise error
    assert replica.in_flight == 0
    assert getattr(replica, counter) == 1


def test_failures_eject_and_a_probe_lets_back():
    clock = Clock()
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
