"""From a fleet file to the table a proxy routes from."""

import pytest

from routing.contract.fleet_compiler import compile_fleet_file, replica_uid
from routing.contract.fleet_file import ExistingState, loads
from routing.contract.policy import Policy
from routing.contract.table import (
    AcceleratorSpec,
    FleetSnapshot,
    Manifest,
    Match,
    ReplicaSpec,
    decode_manifest,
    decode_snapshot,
    encode,
)

FILE = loads(
    """\
hardware: [{name: big, weight: 4}]
accelerators: [{name: n1/gpu0, memory_bytes: 1000, headroom_percent: 10}]
fleets:
  - name: llm
    protocol: openai
    aliases: [chat]
    adapters: [sql]
    match: [{host: LLM.corp.example, path_prefix: /v1/}, {host: "*.corp.example"}]
    served_model: org/Model
    default: true
    policy: {strategy: round_robin, max_concurrency: 8}
    replicas:
      - {name: a, url: "http://10.0.0.1:8000", hardware: big}
      - {name: b, url: "http://10.0.0.2:8000", hardware: big, weight: 0.5, max_concurrency: 2,
         accelerators: [n1/gpu0], memory_bytes: 500, request_bytes: 7, request_bytes_per_work: 0.5}
      - {name: c, url: "http://10.0.0.3:8000", admin_state: maintenance}
  - {name: digits, protocol: open-inference}
"""
)


def test_the_manifest_says_how_requests_find_their_fleet() -> None:
    manifest, _ = compile_fleet_file(FILE, epoch=3, version=9)
    assert manifest == Manifest(
        epoch=3,
        version=9,
        fleets={"llm": 9, "digits": 9},
        default="llm",
        aliases={"chat": "llm"},
        adapters={"sql": "llm"},
        matches={"llm": [Match(host="llm.corp.example", path_prefix="/v1"), Match(host="*.corp.example")]},
        accelerators=[AcceleratorSpec(name="n1/gpu0", memory_bytes=1000, headroom_percent=10.0)],
    )


def test_snapshots_carry_policy_and_resolved_weights() -> None:
    _, (llm, digits) = compile_fleet_file(FILE, epoch=3, version=9)
    assert (llm.epoch, llm.version, llm.name, llm.served_model) == (3, 9, "llm", "org/Model")
    assert (llm.aliases, llm.adapters, digits.adapters) == (["chat"], ["sql"], [])
    assert llm.policy == Policy(strategy="round_robin", max_concurrency=8)
    assert [replica.weight for replica in llm.replicas] == [4.0, 0.5, 1.0]
    assert [replica.max_concurrency for replica in llm.replicas] == [None, 2, None]
    assert [replica.admin_state for replica in llm.replicas] == ["active", "active", "maintenance"]
    assert digits == FleetSnapshot(epoch=3, version=9, revision=9, name="digits", protocol="open-inference")


def test_a_replica_is_assumed_ready() -> None:
    _, (llm, _) = compile_fleet_file(FILE)
    assert llm.replicas[0] == ReplicaSpec(
        uid=replica_uid("llm", "a"),
        name="a",
        url="http://10.0.0.1:8000",
        weight=4.0,
        hardware="big",
        health="ready",
        health_source="assumed",
    )


def test_a_replica_says_what_it_takes_on_its_devices() -> None:
    _, (llm, _) = compile_fleet_file(FILE)
    b = llm.replicas[1]
    assert (b.accelerators, b.memory_bytes, b.request_bytes, b.request_bytes_per_work) == (
        ["n1/gpu0"],
        500,
        7,
        0.5,
    )


def test_uids_come_from_names_alone() -> None:
    assert replica_uid("llm", "a") == replica_uid("llm", "a")
    assert len({replica_uid("llm", "a"), replica_uid("llm", "b"), replica_uid("digits", "a")}) == 3


def test_uids_never_change_between_versions_of_this_program() -> None:
    assert replica_uid("llm", "a") == "74b1c250-9add-539e-b136-9afe63665ddf"


def test_the_table_survives_the_wire() -> None:
    manifest, snapshots = compile_fleet_file(FILE)
    assert decode_manifest(encode(manifest)) == manifest
    assert [decode_snapshot(encode(snapshot)) for snapshot in snapshots] == snapshots


def test_a_class_that_the_file_does_not_define_is_the_callers_mistake() -> None:
    text = "fleets: [{name: a, protocol: openai, replicas: [{name: r, url: 'http://h', hardware: gpu}]}]"
    with pytest.raises(KeyError, match="gpu"):
        compile_fleet_file(loads(text, existing=ExistingState(hardware={"gpu"})))


def test_a_replica_without_a_credential_has_its_fleets() -> None:
    file = loads(
        """
        fleets:
          - name: f
            protocol: generic
            credential: "env:ALL"
            replicas:
              - {name: a, url: "http://h:1"}
              - {name: b, url: "http://h:2", credential: "file:/etc/b"}
          - name: g
            protocol: generic
            replicas: [{name: a, url: "http://h:3"}]
        """
    )
    _, snapshots = compile_fleet_file(file)
    assert [[one.credential for one in snapshot.replicas] for snapshot in snapshots] == [
        ["env:ALL", "file:/etc/b"],
        [""],
    ]
