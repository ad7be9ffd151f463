"""Days that fleets are bought for: who is served in time where capacity allows it."""

from pathlib import Path

import pytest

from routing.contract import fleet_file
from routing.simulator.catalogue import CATALOGUE, ProxyKnowledge
from routing.simulator.fleets import UNEQUAL
from routing.simulator.radiology import READING_SLO_S, SLOTS, SPEEDS
from routing.simulator.requests import ANSWERED
from routing.simulator.scenarios import FRAME_SLO_S, SALE_SLO_S

EXAMPLES = Path(__file__).parents[3] / "examples"
SLOS = {"flash_sale": SALE_SLO_S, "on_board": FRAME_SLO_S, "radiology": READING_SLO_S}


def missed(run, name, strategy, load, duration_s):
    """Share of the requests that were not answered within their time."""
    entry = CATALOGUE[name]
    result = run(
        strategy,
        workload=entry.workload,
        fleet=entry.fleet(ProxyKnowledge()),
        faults=entry.faults(duration_s),
        sites=entry.sites,
        load=load,
        duration_s=duration_s,
    )
    in_time = [r for r in result.requests if r.end == ANSWERED and r.latency_s <= SLOS[name] + 1e-9]
    return 1 - len(in_time) / len(result.requests)


@pytest.mark.parametrize(
    ("name", "load", "duration_s"),
    [
        ("flash_sale", 0.8, 15.0),
        pytest.param("on_board", 0.6, 12.0, marks=pytest.mark.long),
        pytest.param("radiology", 0.75, 30.0, marks=pytest.mark.long),
    ],
)
def test_the_default_serves_nearly_all_in_time_and_turns_do_not(run, name, load, duration_s):
    default = missed(run, name, "least_expected_work", load, duration_s)
    assert default <= 0.001
    assert default <= missed(run, name, "round_robin", load, duration_s) / 2


def test_a_sale_is_ten_times_the_traffic_within_five_seconds(run):
    entry = CATALOGUE["flash_sale"]
    result = run(workload=entry.workload, load=0.5, duration_s=15.0)
    before = sum(request.at_s < 5 for request in result.requests) / 5
    after = sum(request.at_s >= 10 for request in result.requests) / 5
    assert after / before == pytest.approx(10, rel=0.15)


def test_each_camera_gives_thirty_frames_a_second(run):
    result = run(
        workload=CATALOGUE["on_board"].workload, fleet=CATALOGUE["on_board"].fleet(ProxyKnowledge()), load=0.6
    )
    assert len(result.requests) == 24 * 90


def test_the_documented_fleet_is_the_one_that_is_simulated():
    file = fleet_file.load(EXAMPLES / "flash_sale.yaml")
    (fleet,) = file.fleets
    weights = {one.name: one.weight for one in file.hardware}
    assert tuple(weights[replica.hardware] for replica in fleet.replicas) == UNEQUAL
    assert fleet.policy.max_concurrency == 4


def test_a_clinics_images_leave_it_only_when_it_is_busy(run):
    """At a third of both clusters' capacity its own has two thirds; none is lost and few cross over."""
    entry = CATALOGUE["radiology"]
    fleet = entry.fleet(ProxyKnowledge())
    crossed = {}
    for load in (0.3, 0.7):
        picked = run(workload=entry.workload, fleet=fleet, sites=entry.sites, load=load).picked
        crossed[load] = sum(n for name, n in picked.items() if name.startswith("west")) / sum(picked.values())
    assert crossed[0.3] <= 0.1
    assert 0.3 <= crossed[0.7] <= 0.55


def test_the_documented_clusters_are_those_that_are_simulated():
    file = fleet_file.load(EXAMPLES / "radiology.yaml")
    (fleet,) = file.fleets
    weights = {one.name: one.weight for one in file.hardware}
    for site in ("east", "west"):
        assert tuple(weights[one.hardware] for one in fleet.replicas if one.site == site) == SPEEDS
    assert fleet.policy.max_concurrency == SLOTS
