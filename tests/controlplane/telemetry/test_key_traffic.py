"""Reports of client keys in, numbers out: restarts and lost reports cost nothing, a minute is a minute."""

from itertools import count

import pytest

from controlplane.telemetry.deltas import between
from controlplane.telemetry.frames import WINDOW_S
from controlplane.telemetry.key_traffic import MINUTE_S, KeyNumbers, at_limit
from controlplane.telemetry.merge import MergeState, ReceivedReport, merge
from controlplane.telemetry.merged_numbers import Merged
from routing.contract.redis_keys import WORKER_TTL_S
from routing.contract.sketch import bucket_of
from routing.contract.telemetry import KeyCounters, WorkerReport
from tests.controlplane.telemetry.reports import key, report

RPM, AT_ONCE, TPM = "requests_per_minute", "max_concurrency", "tokens_per_minute"


class Watching:
    """Merges that follow one another, a second apart unless told otherwise."""

    def __init__(self) -> None:
        self.state = MergeState()
        self.now = 0.0
        self._sequences = count(10)
        merge(self.state, [ReceivedReport(self.report(), 0.0)], 0.0)

    def report(self, *keys: KeyCounters, worker: str = "host/1/0", **fields: object) -> WorkerReport:
        sequence = next(self._sequences)
        return report(worker, sequence=sequence, **{"uptime_s": 10.0 + self.now, **fields}, keys=list(keys))  # type: ignore[arg-type]

    def after(self, seconds: float, *keys: KeyCounters, **fields: object) -> Merged:
        self.now += seconds
        return self.hear(self.report(*keys, **fields))

    def hear(self, *reports: WorkerReport) -> Merged:
        return merge(self.state, [ReceivedReport(each, 0.0) for each in reports], self.now)


def test_rates_are_what_was_counted_between_two_reports_and_minutes_add_up() -> None:
    watching = Watching()
    watching.after(1, key(10, tokens=500, limited=2, limited_by={RPM: 2}))
    seen = watching.after(2, key(30, tokens=900, limited=6, limited_by={RPM: 5, TPM: 1}, in_flight=3)).keys[
        "7"
    ]
    assert (seen.rps, seen.limited_per_s, seen.in_flight) == (10.0, 2.0, 3)
    assert (seen.requests, seen.tokens) == (24, 900)
    assert seen.limited == {RPM: 3, TPM: 1}
    assert seen.limited_lately == {RPM, TPM}


def test_a_minute_forgets_what_is_older() -> None:
    watching = Watching()
    watching.after(1, key(10, tokens=100))
    watching.after(30, key(15, tokens=180))
    assert watching.after(29, key(15, tokens=180)).keys["7"].requests == 15
    seen = watching.after(1, key(15, tokens=180)).keys["7"]
    assert (seen.requests, seen.tokens, seen.used) == (5, 80, True)
    # Nothing is looked at of a key that is idle: there may be thousands.
    assert watching.after(30, key(15, tokens=180)).keys == {}
    assert watching.state.keys.minutes == {}


def test_workers_add_up_and_one_that_is_gone_leaves_what_it_did() -> None:
    watching = Watching()
    watching.hear(watching.report(worker="host/1/0"), watching.report(worker="host/1/1"))
    watching.now += 1
    one = watching.report(key(6, in_flight=2, tokens=60), worker="host/1/0")
    two = watching.report(key(4, in_flight=1, tokens=40), key(9, id="8"), worker="host/1/1")
    seen = watching.hear(one, two).keys
    assert (seen["7"].rps, seen["7"].in_flight, seen["7"].requests, seen["7"].tokens) == (10.0, 3, 10, 100)
    assert (seen["8"].requests, seen["8"].tokens) == (9, 0)
    left = merge(
        watching.state, [ReceivedReport(one, 0.0), ReceivedReport(two, WORKER_TTL_S + 1)], watching.now + 1
    ).keys["7"]
    assert (left.in_flight, left.requests, left.tokens) == (2, 10, 100)


def test_a_restarted_worker_begins_again_at_zero() -> None:
    watching = Watching()
    watching.after(1, key(100, tokens=9000, limited=50, limited_by={RPM: 50}))
    seen = watching.after(1, key(4, tokens=30, limited=1, limited_by={RPM: 1}), incarnation=2, uptime_s=2.0)
    assert (seen.keys["7"].rps, seen.keys["7"].limited_per_s) == (2.0, 0.5)
    assert (seen.keys["7"].requests, seen.keys["7"].tokens) == (53, 9030)
    assert seen.keys["7"].limited == {RPM: 1}


def test_a_key_whose_counters_began_again_is_never_negative() -> None:
    watching = Watching()
    watching.after(1, key(100, tokens=9000, limited=50, limited_by={RPM: 50}))
    seen = watching.after(1, key(4, tokens=9001, limited=50, limited_by={RPM: 50})).keys["7"]
    assert (seen.rps, seen.limited_per_s, seen.tokens) == (4.0, 50.0, 18_001)


def test_a_report_that_is_read_twice_counts_once_and_a_lost_one_is_caught_up_with() -> None:
    watching = Watching()
    first = watching.report(key(10, limited=1, limited_by={RPM: 1}))
    watching.now += 1
    watching.hear(first)
    again = watching.hear(first).keys["7"]
    assert (again.requests, again.limited) == (9, {})
    assert watching.after(3, key(40, limited=1, limited_by={RPM: 1})).keys["7"].requests == 39


def test_the_first_sight_of_an_old_worker_is_a_baseline() -> None:
    state = MergeState()
    old = report(
        sequence=3600, keys=[key(50_000, tokens=10**7, limited=30, limited_by={RPM: 30}, in_flight=4)]
    )
    seen = merge(state, [ReceivedReport(old, 0.0)], 0.0).keys["7"]
    assert (seen.rps, seen.requests, seen.tokens, seen.limited) == (0.0, 0, 0, {})
    assert seen.in_flight == 4


@pytest.mark.parametrize(
    ("numbers", "found"),
    [
        (KeyNumbers(requests=59, in_flight=3, tokens=999), []),
        (KeyNumbers(requests=60), [RPM]),
        (KeyNumbers(in_flight=4), [AT_ONCE]),
        (KeyNumbers(tokens=1000), [TPM]),
        (KeyNumbers(requests=12, limited_lately=frozenset({RPM})), [RPM]),
    ],
)
def test_a_key_is_at_a_limit_that_is_used_up_or_refused_lately(numbers: KeyNumbers, found: list[str]) -> None:
    assert at_limit(numbers, {RPM: 60, AT_ONCE: 4, TPM: 1000}) == found
    assert at_limit(numbers, {RPM: None, AT_ONCE: None, TPM: None}) == []


def test_lately_ends() -> None:
    watching = Watching()
    watching.after(1, key(1, limited=1, limited_by={AT_ONCE: 1}))
    same = key(1, limited=1, limited_by={AT_ONCE: 1})
    assert watching.after(WINDOW_S - 1, same).keys["7"].limited_lately == {AT_ONCE}
    assert "7" not in watching.after(1, same).keys
    assert MINUTE_S > WINDOW_S


def test_percentiles_and_errors_are_of_the_last_minute() -> None:
    watching = Watching()
    fast, slow = bucket_of(0.1), bucket_of(2.0)
    watching.after(1, key(100, latency={slow: 100}, first_token={fast: 100}, errors={"timeout": 3}))
    counts = {"latency": {slow: 100, fast: 20}, "first_token": {fast: 100}, "errors": {"timeout": 3}}
    seen = watching.after(20, key(120, **counts)).keys["7"]
    assert seen.errors == 3
    assert seen.p50_s == pytest.approx(2.0, rel=0.03)
    assert seen.first_token_p95_s == pytest.approx(0.1, rel=0.03)
    seen = watching.after(41, key(120, **counts)).keys["7"]
    assert seen.errors == 0
    assert (seen.p50_s, seen.p99_s) == (pytest.approx(0.1, rel=0.03), pytest.approx(0.1, rel=0.03))
    assert seen.first_token_p95_s is None
    assert watching.after(30, key(120, **counts)).keys == {}
    assert watching.state.keys.minutes == {}


def test_sketches_that_began_anew_count_once() -> None:
    """A worker forgets those of a key that was not used for a while."""
    watching, bucket = Watching(), bucket_of(0.1)
    watching.after(1, key(100, latency={bucket: 100}))
    watching.after(61, key(100))
    kept = key(100, latency={bucket: 100})
    for before in (key(100), kept):
        newer = key(103, latency={bucket: 3})
        assert between(watching.report(before), watching.report(newer)).keys["7"].latency == {bucket: 3}
