"""What a report says of an idle replica is sent again for seconds; what happens at one is said at once."""

from collections.abc import Callable
from random import Random

import msgspec
import pytest

from routing.balancing.attempt.attempt import Attempt
from routing.balancing.attempt.outcome import Outcome
from routing.balancing.pool.pool import Pool
from routing.balancing.replica.state import Replica
from routing.contract.table import FleetSnapshot, ReplicaSpec
from routing.contract.telemetry import ReplicaCounters
from routing.worker.config.kept_counters import KEPT_S, KeptCounters

SPECS = [ReplicaSpec(uid=f"u{n}", name=f"r{n}", url=f"http://10.0.0.{n + 1}:8000") for n in range(3)]


@pytest.fixture
def pool() -> Pool:
    """In which something was learned."""
    made = Pool(FleetSnapshot(epoch=1, version=1, revision=1, name="f", protocol="openai", replicas=SPECS))
    for n in range(60):
        _request(made, float(n) / 10)
    return made


def _request(pool: Pool, now: float) -> Replica:
    attempt = _begin(pool, now)
    attempt.settle(Outcome.SUCCESS, now + 0.05)
    return attempt.replica


def _begin(pool: Pool, now: float) -> Attempt:
    attempt = pool.begin(1.0, now)
    assert isinstance(attempt, Attempt)
    return attempt


def said(kept: KeptCounters, pool: Pool, replica: Replica, now: float) -> ReplicaCounters:
    return msgspec.json.decode(kept.encoded(replica, pool.speed, now), type=ReplicaCounters)


def test_of_an_idle_replica_the_same_is_said_for_some_seconds(pool: Pool) -> None:
    kept, replica = KeptCounters(Random(1)), pool.replicas[0]
    first = said(kept, pool, replica, 10.0)
    assert first.learned is not None
    assert said(kept, pool, replica, 10.0 + KEPT_S / 2 - 0.1) == first
    later = said(kept, pool, replica, 10.0 + KEPT_S + 0.1)
    assert later.learned is not None
    assert later.learned.requests < first.learned.requests, "evidence fades"


def test_what_happens_is_said_at_once(pool: Pool) -> None:
    kept = KeptCounters(Random(1))
    for replica in pool.replicas:
        said(kept, pool, replica, 10.0)
    attempt = _begin(pool, 10.1)
    assert said(kept, pool, attempt.replica, 10.2).in_flight == 1
    attempt.settle(Outcome.SUCCESS, 10.3)
    after = said(kept, pool, attempt.replica, 10.4)
    assert (after.in_flight, after.succeeded) == (0, after.picked)


def _eject(replica: Replica) -> None:
    replica.ejection.until, replica.ejection.reason = 20.0, "5xx"


def _loses_its_credential(replica: Replica) -> None:
    replica.security.no_credential = "env:X is not set"


@pytest.mark.parametrize(
    ("happens", "field"), [(_eject, "ejected_for_s"), (_loses_its_credential, "no_credential")]
)
def test_what_others_do_to_it_is_said_at_once(
    pool: Pool, happens: Callable[[Replica], None], field: str
) -> None:
    kept, replica = KeptCounters(Random(1)), pool.replicas[0]
    before = said(kept, pool, replica, 10.0)
    happens(replica)
    now = said(kept, pool, replica, 10.1)
    assert getattr(now, field)
    assert not getattr(before, field)
    if field == "ejected_for_s":
        assert said(kept, pool, replica, 11.1).ejected_for_s == pytest.approx(8.9)


def test_those_that_left_are_forgotten(pool: Pool) -> None:
    kept = KeptCounters(Random(1))
    said(kept, pool, pool.replicas[0], 10.0)
    kept.forget_beyond(3)
    assert kept._encoded
    kept._encoded.update(dict.fromkeys(map(str, range(200)), b"{}"))
    kept.forget_beyond(3)
    assert not kept._encoded
    assert not kept._states
