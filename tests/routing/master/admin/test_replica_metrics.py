"""Replica state metrics."""

from typing import Any

import pytest

from routing.contract.table import FleetSnapshot, ReplicaSpec
from routing.contract.telemetry import FleetCounters, ReplicaCounters, WorkerReport
from routing.master.admin.aggregate import RetiredCounters, aggregate_fleets
from routing.master.admin.exposition import Exposition
from routing.master.admin.replica_metrics import replica_metrics


@pytest.mark.parametrize(
    ("changes", "ejected_for_s", "drained", "eligible"),
    [
        ({}, None, [], 1),
        ({"health": "unready"}, None, [], 0),
        ({"admin_state": "maintenance"}, None, [], 0),
        ({"weight": 0.0}, None, [], 0),
        ({}, 3.0, [], 0),
        ({}, 0.0, [], 0),
        ({"credential": "env:K"}, None, [], 0),
        ({}, None, [("f", "a")], 0),
        ({}, None, [("f", "b"), ("g", "a")], 1),
    ],
)
def test_a_replica_is_eligible_in_metrics_when_everything_allows_it(
    changes: dict[str, Any], ejected_for_s: float | None, drained: list[tuple[str, str]], eligible: int
) -> None:
    """One worker that has ejected it is enough; while it is on probation it is still ejected."""
    spec = ReplicaSpec(uid="u", name="a", url="http://10.0.0.1", **changes)
    table = FleetSnapshot(epoch=1, version=1, revision=1, name="f", protocol="generic", replicas=[spec])
    seen = [None, ejected_for_s]
    reports = [
        WorkerReport(
            worker=f"w{number}",
            incarnation=1,
            sequence=1,
            fleets=[
                FleetCounters(
                    name="f",
                    replicas=[
                        ReplicaCounters(uid="u", name="a", ejected_for_s=for_s, no_credential=spec.credential)
                    ],
                )
            ],
        )
        for number, for_s in enumerate(seen)
    ]
    out = Exposition()
    replica_metrics(out, [table], drained, aggregate_fleets(RetiredCounters(), reports))
    lines = out.encode().decode().splitlines()
    assert f'switchyard_replica_eligible{{fleet="f",replica="a"}} {eligible}' in lines
    assert f'switchyard_replica_health{{fleet="f",replica="a",state="{spec.health}"}} 1' in lines
    wanted = "draining" if ("f", "a") in drained else spec.admin_state
    assert f'switchyard_replica_admin_state{{fleet="f",replica="a",state="{wanted}"}} 1' in lines
