"""The budget of second attempts: a twentieth of the requests, saved up for when it is needed."""

from routing.balancing.admission.retry_budget import WINDOW_S, RetryBudget
from routing.balancing.admission.second_budget import AT_FIRST, MOST_SAVED, SHARE, SecondBudget


class Fleet:
    """Requests, of which each late one is sent twice if the budget allows it."""

    def __init__(self, percent: float = 20.0) -> None:
        self.retries = RetryBudget(percent)
        self.budget = SecondBudget(self.retries)
        self.requests = self.seconds = 0

    def request(self, late: bool) -> None:
        self.requests += 1
        self.retries.requests += 1
        if late and self.budget.has_left(self.requests):
            self.budget.take()
            self.seconds += 1


def test_in_the_long_run_it_is_a_twentieth():
    fleet = Fleet()
    for number in range(20_000):
        if number % 100 == 0:
            fleet.retries.rotate(number / 100)
        fleet.request(late=True)
    assert fleet.seconds <= SHARE * fleet.requests + AT_FIRST
    assert fleet.seconds >= SHARE * fleet.requests


def test_an_idle_fleet_saves_a_few():
    fleet = Fleet()
    for number in range(1000):
        fleet.retries.rotate(number * WINDOW_S)
        fleet.request(late=False)
    for _ in range(20):
        fleet.request(late=True)
    assert MOST_SAVED <= fleet.seconds <= MOST_SAVED + 1


def test_a_busy_fleet_has_enough_for_all_that_waits_at_one_replica():
    fleet = Fleet()
    for _ in range(5000):
        fleet.request(late=False)
    for _ in range(250):
        fleet.request(late=True)
    assert fleet.seconds == 250


def test_it_is_charged_to_the_retries():
    fleet = Fleet()
    fleet.request(late=True)
    assert fleet.retries.retries == 1
    fleet.budget.give_back()
    assert fleet.retries.retries == 0
    none = Fleet(percent=0.0)
    none.request(late=True)
    assert none.seconds == 0
