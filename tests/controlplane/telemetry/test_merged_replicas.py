"""Numbers of replicas that are carried from merge to merge are those that would be made anew."""

import copy
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.telemetry.merge import MergeState, ReceivedReport, merge
from controlplane.telemetry.merged_numbers import ReplicaNumbers
from controlplane.telemetry.report_decoder import ReportDecoder, decode_without_replicas
from routing.contract.telemetry import (
    EmergencyDrainReport,
    FleetCounters,
    ReplicaCounters,
    WorkerReport,
    decode_report,
    encode_report,
)
from tests.controlplane.telemetry.reports import sketch_of

NAMES = ("a", "b", "c", "d")
WORKERS = ("host/1/0", "host/1/1")


class Host:
    """Two workers that count, restart, gain and lose replicas, and report."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.second = 0
        self.incarnations = dict.fromkeys(WORKERS, 1)
        self.counters: dict[str, dict[str, ReplicaCounters]] = {name: {} for name in WORKERS}
        self.present = list(NAMES)
        self.drained: list[EmergencyDrainReport] = []

    def go_on(self) -> None:
        self.second += 1
        rng = self.rng
        if rng.random() < 0.2:
            self.present = rng.sample(NAMES, rng.randrange(1, len(NAMES) + 1))
        if rng.random() < 0.1:
            worker = rng.choice(WORKERS)
            self.incarnations[worker] += 1
            self.counters[worker] = {}
        drain = EmergencyDrainReport(fleet="f", replica=rng.choice(NAMES), expires_in_s=9.0)
        self.drained = [drain] if rng.random() < 0.2 else []
        for worker in WORKERS:
            for name in self.present:
                self._count(
                    self.counters[worker].setdefault(name, ReplicaCounters(uid=f"u-{name}", name=name))
                )

    def _count(self, one: ReplicaCounters) -> None:
        rng = self.rng
        if rng.random() < 0.5:
            return
        one.in_flight = rng.randrange(3)
        one.picked += (requests := rng.randrange(3))
        one.succeeded += requests
        one.failed += (failed := rng.randrange(2))
        one.failed_by = {**one.failed_by, "lost": one.failed_by.get("lost", 0) + failed}
        one.latency = sketch_of([0.1] * one.picked)
        one.ejections += (ejected := rng.random() < 0.2)
        one.ejected_for_s = 3.0 if ejected else None
        one.doubt = rng.choice(("", "tried out"))

    def reports(self) -> list[bytes]:
        return [
            encode_report(
                WorkerReport(
                    worker=worker,
                    incarnation=self.incarnations[worker],
                    sequence=self.second,
                    uptime_s=float(self.second),
                    drained_by_hand=self.drained,
                    fleets=[
                        FleetCounters(
                            name="f", replicas=[self.counters[worker][name] for name in self.present]
                        )
                    ],
                )
            )
            for worker in self.rng.sample(WORKERS, self.rng.randrange(1, 3))
        ]


def numbers(state: MergeState, reports: list[WorkerReport], now: float) -> dict[str, ReplicaNumbers]:
    merged = merge(state, [ReceivedReport(one, 0.1) for one in reports], now)
    return merged.fleets["f"].replicas


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_carried_numbers_are_those_made_anew(seed: int) -> None:
    host, decoder = Host(Random(seed)), ReportDecoder()
    carried, anew = MergeState(), MergeState()
    for second in range(30):
        host.go_on()
        sent = host.reports()
        found = numbers(carried, [decoder.decode(data) for data in sent], float(second))
        anew.merged_replicas.clear()
        assert found == numbers(anew, [decode_report(data) for data in sent], float(second))


def test_of_a_quiet_fleet_nothing_is_decoded_or_made_anew() -> None:
    host, decoder, state = Host(Random(1)), ReportDecoder(), MergeState()
    host.go_on()

    def said(**fields: Any) -> list[WorkerReport]:
        rows = [ReplicaCounters(uid=f"u-{name}", name=name, **fields) for name in NAMES]
        fleet = FleetCounters(name="f", replicas=rows)
        report = WorkerReport(worker="h/1/0", incarnation=1, sequence=host.second, fleets=[fleet])
        host.second += 1
        return [decoder.decode(encode_report(report))]

    first = numbers(state, said(), 0.0)
    before = copy.copy(state.known["h/1/0"].report.fleets[0].replicas)
    second = numbers(state, said(), 1.0)
    assert all(second[uid] is first[uid] for uid in first)
    assert state.known["h/1/0"].report.fleets[0].replicas[0] is before[0]
    assert numbers(state, said(picked=1), 2.0)["u-a"].rps > 0
    assert numbers(state, said(picked=1), 3.0)["u-a"].rps == 0


def test_a_worker_that_is_gone_is_forgotten() -> None:
    decoder = ReportDecoder()
    for name in WORKERS:
        decoder.decode(encode_report(WorkerReport(worker=name, incarnation=1, sequence=1)))
    decoder.forget_all_but(WORKERS[:1])
    assert list(decoder._known) == [WORKERS[0]]


def test_whoever_looks_at_workers_decodes_no_replica() -> None:
    host = Host(Random(1))
    host.go_on()
    for data in host.reports():
        whole, without = decode_report(data), decode_without_replicas(data)
        assert whole.fleets[0].replicas
        whole.fleets[0].replicas = []
        assert encode_report(without) == encode_report(whole)
