"""Rows → snapshots: every setting of a replica gets to the table, as it does from a fleet file."""

import cProfile
import pstats

from msgspec.structs import asdict, replace

from controlplane.models import ClientKey, Fleet
from controlplane.publishing import publisher, snapshots
from controlplane.services import fleet_files
from routing.contract.fleet_compiler import compile_fleet_file
from routing.contract.fleet_file import loads
from routing.contract.fleet_file.replica_rules import REPLICA
from routing.contract.fleet_file.structs import ReplicaEntry

FILE = """
hardware: [{name: big, weight: 4}]
accelerators: [{name: n1/gpu0, memory_bytes: 1000}]
fleets:
  - name: llm
    protocol: openai
    credential: "env:ALL"
    adapters: [sql, chat]
    replicas:
      - {name: a, url: "http://10.0.0.1:8000", hardware: big}
      - {name: b, url: "http://10.0.0.2:8000", hardware: big, weight: 0.5, max_concurrency: 2,
         accelerators: [n1/gpu0], memory_bytes: 500, request_bytes: 7, request_bytes_per_work: 0.5,
         adapters: [sql], site: north, version: v2, credential: "env:B", admin_state: draining, move: true}
"""


def test_the_example_sets_every_setting() -> None:
    [fleet] = loads(FILE).fleets
    settings, defaults = asdict(fleet.replicas[1]), asdict(ReplicaEntry(name="", url=""))
    assert {name for name in REPLICA.fields if settings[name] != defaults[name]} == REPLICA.fields.keys()


def test_rows_and_the_file_that_made_them_give_the_same_replicas() -> None:
    """But for its uid and its health, which a file does not know."""
    file = loads(FILE)
    fleet_files.apply(file, "tests")
    published = publisher.snapshot_of(Fleet.objects.get()).replicas
    _, [compiled] = compile_fleet_file(file)
    known = ("uid", "health", "health_source", "has_passed")
    assert [
        replace(one, **{name: getattr(other, name) for name in known})
        for one, other in zip(published, compiled.replicas, strict=True)
    ] == compiled.replicas


def test_every_setting_is_published_as_it_was_set() -> None:
    file = loads(FILE)
    fleet_files.apply(file, "tests")
    published = publisher.snapshot_of(Fleet.objects.get()).replicas[1]
    settings = asdict(file.fleets[0].replicas[1])
    assert {name: getattr(published, name) for name in REPLICA.fields} == settings


def test_many_client_keys_are_little_work_for_a_manifest() -> None:
    """It is read at each write that touches it, while other writes wait."""
    count = 500
    fleets = [Fleet.objects.create(name=name, protocol="generic") for name in ("b", "a", "other")]
    for number in range(count):
        ClientKey.objects.create(
            name=f"k{number}", prefix="sy-", key_hash=f"{number}", all_fleets=number % 2 == 0, created_by="x"
        )
    for number in (1, 3):
        ClientKey.objects.get(name=f"k{number}").fleets.set(fleets[:2])
    profile = cProfile.Profile()
    found = profile.runcall(snapshots.manifest)
    assert pstats.Stats(profile).total_calls < 100 * count  # type: ignore[attr-defined]
    assert {name: found.key_hashes[name] for name in "01235"} == {
        "0": ["*"],
        "1": ["a", "b"],
        "2": ["*"],
        "3": ["a", "b"],
        "5": [],
    }
