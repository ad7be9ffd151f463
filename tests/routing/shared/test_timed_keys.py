"""Timed keys: sketches of client keys stay bounded, the idle and oldest begin anew first."""

import pytest

from routing.contract.telemetry import KeyCounters, WorkerReport, encode_report
from routing.shared import timed_keys
from routing.shared.key_quota import KeyCounts
from routing.shared.timed_keys import IDLE_S, MOST_KEYS, TimedKeys


def use(key: KeyCounts) -> None:
    key.requests += 1
    key.answered(100)


def test_the_idle_begin_anew_after_a_minute() -> None:
    timed, key, other = TimedKeys(), KeyCounts("a"), KeyCounts("b")
    use(key)
    use(other)
    timed.follow([key, other], 0.0)
    use(other)
    timed.follow([key, other], 30.0)
    timed.follow([key, other], IDLE_S - 0.1)
    assert key.latency == {100: 1}
    timed.follow([key, other], IDLE_S)
    assert (key.latency, other.latency) == ({}, {100: 2})
    use(key)
    timed.follow([key, other], IDLE_S + 1.0)
    assert key.latency == {100: 1}


def test_one_in_flight_is_not_idle() -> None:
    timed, key = TimedKeys(), KeyCounts("a")
    use(key)
    key.in_flight = 1
    for second in range(200):
        timed.follow([key], float(second))
    assert key.latency == {100: 1}
    key.in_flight = 0
    timed.follow([key], 200.0)
    timed.follow([key], 199.0 + IDLE_S)
    assert key.latency == {}


def test_of_too_many_the_oldest_begin_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timed_keys, "MOST_KEYS", 3)
    timed, keys = TimedKeys(), [KeyCounts(str(number)) for number in range(5)]
    for second, key in enumerate(keys):
        use(key)
        timed.follow(keys, float(second))
    assert [bool(key.latency) for key in keys] == [False, False, True, True, True]
    use(keys[2])
    timed.follow(keys, 5.0)
    use(keys[0])
    timed.follow(keys, 6.0)
    assert [bool(key.latency) for key in keys] == [True, False, True, False, True]


def test_what_was_reported_is_not_taken_back() -> None:
    key = KeyCounts("a")
    use(key)
    reported = key.counters()
    key.forget_times()
    assert reported.latency == {100: 1}


def test_ten_thousand_keys() -> None:
    timed, keys = TimedKeys(), [KeyCounts(str(number)) for number in range(10_000)]
    for second in range(3):
        for key in keys:
            use(key)
        timed.follow(keys, float(second))
        assert sum(bool(key.latency) for key in keys) == MOST_KEYS


def test_a_key_that_did_nothing_is_short_in_a_report() -> None:
    text = encode_report(WorkerReport(worker="w", incarnation=1, sequence=1, keys=[KeyCounters(id="7")]))
    assert b'"keys":[{"id":"7"}]' in text
