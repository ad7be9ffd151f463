"""Probe results in, states out: each test reads as what happened to one replica."""

from typing import get_args

import pytest

from routing.contract.health import (
    TRANSITIONS,
    Counters,
    HealthDecision,
    ResultKind,
    UnlistedTransition,
    next_health,
)
from routing.contract.probe import Probe
from routing.contract.probe_result import ProbeResult, down, passed, unready
from routing.contract.table import Health

PROBE = Probe(rise=2, fall=3)
PASS = passed("200 OK")
LOADING = unready("503 Loading model")
REFUSED = down("connection refused")
SILENT = ProbeResult(False, "down", "no response in 1.0 s", inconclusive=True)


class Replica:
    """A replica under probing; ``history`` holds each change as (state, reason)."""

    def __init__(self, state: Health = "checking", has_passed: bool = False) -> None:
        self.state: Health = state
        self.has_passed = has_passed
        self.counters = Counters()
        self.history: list[tuple[str, str]] = []

    def see(
        self, *verdicts: ProbeResult, times: int = 1, in_budget: bool = True, answering: bool = False
    ) -> Health:
        for result in verdicts * times:
            made: HealthDecision = next_health(
                self.state,
                self.counters,
                result,
                PROBE,
                has_passed=self.has_passed,
                in_startup_budget=in_budget,
                answering=answering,
            )
            if made.changed:
                self.history.append((made.state, made.reason))
            self.state, self.counters, self.has_passed = made.state, made.counters, made.has_passed
        return self.state


def test_the_very_first_pass_counts_at_once() -> None:
    replica = Replica()
    assert replica.see(REFUSED, LOADING, LOADING, times=10) == "checking"
    assert replica.see(PASS) == "ready"
    assert replica.has_passed
    assert replica.history == [("ready", "200 OK")]


def test_a_replica_that_never_passes_is_down_when_its_startup_budget_is_spent() -> None:
    replica = Replica()
    replica.see(LOADING, times=100)
    assert replica.see(LOADING, in_budget=False) == "down"
    assert replica.history == [("down", "has not passed a probe within 1800 s: 503 Loading model")]
    assert replica.see(LOADING, REFUSED, times=5, in_budget=False) == "down"
    assert replica.see(PASS, in_budget=False) == "ready"


def test_ready_is_lost_after_three_failures_in_a_row_and_not_before() -> None:
    replica = Replica("ready", has_passed=True)
    assert replica.see(LOADING, LOADING, PASS, LOADING, LOADING) == "ready"
    assert replica.see(LOADING) == "unready"
    assert replica.history == [("unready", "503 Loading model")]


def test_refusal_leads_down() -> None:
    replica = Replica("ready", has_passed=True)
    assert replica.see(REFUSED, times=3) == "down"


def test_the_last_of_mixed_failures_decides() -> None:
    replica = Replica("ready", has_passed=True)
    assert replica.see(LOADING, LOADING, REFUSED) == "down"


def test_coming_back_takes_two_passes_in_a_row() -> None:
    for state in ("unready", "down"):
        replica = Replica(state, has_passed=True)
        assert replica.see(PASS, LOADING, PASS) == "unready"
        assert replica.see(PASS) == "ready"


def test_an_unready_replica_that_stops_answering_is_down_after_three() -> None:
    replica = Replica("unready", has_passed=True)
    assert replica.see(REFUSED, REFUSED, LOADING, REFUSED, REFUSED) == "unready"
    assert replica.see(REFUSED) == "down"


def test_a_down_replica_that_answers_again_is_unready() -> None:
    replica = Replica("down", has_passed=True)
    assert replica.see(REFUSED, LOADING) == "unready"


def test_silence_alone_does_not_take_down_a_replica_that_answers_live_traffic() -> None:
    replica = Replica("ready", has_passed=True)
    assert replica.see(SILENT, times=50, answering=True) == "ready"
    assert replica.see(SILENT, times=3) == "down"


def test_refusal_counts_even_while_live_traffic_is_answered() -> None:
    replica = Replica("ready", has_passed=True)
    assert replica.see(REFUSED, times=3, answering=True) == "down"


def test_excused_silence_neither_adds_to_failures_nor_forgives_them() -> None:
    replica = Replica("ready", has_passed=True)
    replica.see(LOADING, LOADING)
    replica.see(SILENT, answering=True)
    assert replica.counters == Counters(falls=2)
    assert replica.see(LOADING) == "unready"


def test_a_reason_is_given_for_every_result_changed_or_not() -> None:
    made = next_health(
        "ready", Counters(), SILENT, PROBE, has_passed=True, in_startup_budget=False, answering=True
    )
    assert (made.changed, made.reason) == (False, "no response in 1.0 s, but it answers live traffic")


def test_what_the_table_does_not_list_raises() -> None:
    with pytest.raises(UnlistedTransition, match="a replica that is ready cannot be seen overdue"):
        next_health(
            "ready", Counters(), REFUSED, PROBE, has_passed=False, in_startup_budget=False, answering=False
        )


def test_the_table_lists_every_pair_but_the_contradictory_ones() -> None:
    pairs = {(state, seen) for state in get_args(Health) for seen in get_args(ResultKind)}
    assert pairs - set(TRANSITIONS) == {("ready", "overdue"), ("unready", "overdue")}
