"""The workers' reports as one sum, in which dead workers stay counted."""

from routing.contract.sketch import bucket_of
from routing.contract.telemetry import FleetCounters, KeyCounters, ReplicaCounters, WorkerReport
from routing.master.admin.aggregate import RetiredCounters, aggregate_fleets, aggregate_keys


def report(requests: int, in_flight: int = 0, seconds: float = 0.02) -> WorkerReport:
    replica = ReplicaCounters(uid="u1", name="r1", picked=requests, in_flight=in_flight)
    fleet = FleetCounters(
        name="echo", requests=requests, in_flight=in_flight, latency={bucket_of(seconds): requests}
    )
    fleet.replicas = [replica]
    fleet.queued, fleet.queue_full, fleet.queue_late, fleet.cold = requests, 3, 2, 1
    fleet.waiting, fleet.oldest_wait_s, fleet.waited = in_flight, float(in_flight), fleet.latency
    return WorkerReport(worker="w", incarnation=1, sequence=1, fleets=[fleet], cpu_s=1.0)


def test_what_a_dead_worker_counted_stays_in_the_sums() -> None:
    totals = RetiredCounters()
    [before] = aggregate_fleets(totals, [report(10, in_flight=2), report(5)])
    totals.retire(report(10, in_flight=2))
    [after] = aggregate_fleets(totals, [report(0), report(5)])
    assert (before.requests, after.requests) == (15, 15)
    assert (before.in_flight, after.in_flight) == (2, 0)
    assert (before.replicas[0].picked, after.replicas[0].picked) == (15, 15)
    assert sum(after.latency.values()) == sum(after.waited.values()) == 15
    assert (after.queued, after.queue_full, after.queue_late, after.cold) == (15, 9, 6, 3)
    assert (before.waiting, before.oldest_wait_s) == (2, 2.0)
    assert (after.waiting, after.oldest_wait_s) == (0, 0.0)
    # Merging reads; it must not add to what is kept.
    assert (
        aggregate_fleets(totals, [report(0)])[0].requests
        == aggregate_fleets(totals, [report(0)])[0].requests
        == 10
    )


def test_what_a_dead_worker_counted_of_a_key_stays_in_the_sums() -> None:
    totals = RetiredCounters()

    def report_of(*keys: KeyCounters) -> WorkerReport:
        return WorkerReport(worker="w", incarnation=1, sequence=1, keys=list(keys))

    dead = KeyCounters(
        id="a", requests=5, in_flight=2, limited=1, limited_by={"max_concurrency": 1}, tokens=7
    )
    totals.retire(report_of(dead, KeyCounters(id="gone", requests=9)))
    totals.retire(report_of(KeyCounters(id="a", requests=1)))
    alive = KeyCounters(id="a", requests=3, in_flight=1, limited=1, limited_by={"requests_per_minute": 1})
    other = KeyCounters(id="b", requests=1)
    found = aggregate_keys(
        totals, [report_of(other), report_of(alive), report_of(KeyCounters(id="a", tokens=1))]
    )
    limited_by = {"max_concurrency": 1, "requests_per_minute": 1}
    summed = KeyCounters(id="a", requests=9, in_flight=1, limited=2, limited_by=limited_by, tokens=8)
    assert found == [summed, other]


def test_fallbacks_are_added_by_fleet_and_cause() -> None:
    def counted(**causes: int) -> WorkerReport:
        fleet = FleetCounters(name="large", fallbacks={"small": causes}, no_fallback={"key": 1})
        return WorkerReport(worker="w", incarnation=1, sequence=1, fleets=[fleet])

    totals = RetiredCounters()
    totals.retire(counted(no_place=5, deadline=1))
    [found] = aggregate_fleets(totals, [counted(no_place=2), counted(first_token=3)])
    assert found.fallbacks == {"small": {"no_place": 7, "deadline": 1, "first_token": 3}}
    assert found.no_fallback == {"key": 3}
