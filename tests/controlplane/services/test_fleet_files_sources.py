"""Sources in fleet files: applied, dumped, left alone where the file says nothing, refused with a place."""

from pathlib import Path

import pytest

from controlplane.models import DiscoverySource, Event, Replica, ReplicaOwner
from controlplane.services import fleet_files, replicas, sources
from controlplane.services.errors import Invalid
from routing.contract.fleet_file import dump, loads
from routing.master.standalone import fleet_file_watcher
from tests.controlplane.management.test_commands import run
from tests.controlplane.services.test_fleet_files_refusals import refusal

PLAIN = """\
version: 1
fleets:
  - name: llm
    protocol: openai
    expose: inference
    replicas:
      - {name: a, url: "http://10.0.0.1:8000"}
"""
FILE = (
    PLAIN
    + """\
    sources:
      - {name: rack, paused: true, file: {path: rack.yaml}, replica: {site: east, credential: "env:TOKEN"}}
      - name: pods
        kubernetes: {namespace: models, service: llm, labels: {hardware: nvidia.com/gpu.product}}
        resync_s: 5
"""
)


def owned(name: str, source: str) -> None:
    made = replicas.register("llm", {"name": name, "url": f"http://10.0.0.9:{ord(name)}"}, "tests").replica
    ReplicaOwner.objects.create(replica=made, source=DiscoverySource.objects.get(name=source))


def test_they_are_applied_and_dumped_as_they_are() -> None:
    assert fleet_files.apply(loads(FILE), "tests") == [
        "fleet llm: created with 1 replica",
        "fleet llm: source rack: created",
        "fleet llm: source pods: created",
    ]
    rack = DiscoverySource.objects.get(name="rack")
    assert (rack.kind, rack.status.state) == ("file", "paused")
    assert rack.settings["replica"] == {"site": "east", "credential": "env:TOKEN"}
    assert fleet_files.apply(loads(FILE), "tests") == []
    text = run("dump")
    assert loads(text).fleets[0].sources == sorted(loads(FILE).fleets[0].sources or [], key=lambda s: s.name)
    assert "ttl_s" not in text, "what is at its default is left out"
    changed = FILE.replace("resync_s: 5", "resync_s: 7").replace(" paused: true,", "")
    assert fleet_files.apply(loads(changed), "tests") == [
        "fleet llm: source rack: paused: true → false",
        "fleet llm: source pods: resync_s: 5 → 7",
    ]
    assert Event.objects.filter(text="tests resumed source rack").exists()


def test_a_file_without_them_leaves_them_and_a_list_is_all_that_there_are() -> None:
    fleet_files.apply(loads(FILE), "tests")
    owned("r", "rack")
    assert fleet_files.apply(loads(PLAIN), "tests") == []
    dumped = dump(fleet_files.read())
    assert "10.0.0.9" not in dumped, "what a source put there is not in the file"
    fewer = FILE.replace(FILE[FILE.index("      - {name: rack") : FILE.index("      - name: pods")], "")
    lines = fleet_files.apply(loads(fewer), "tests", dry_run=True)
    assert lines == [
        "fleet llm: source rack: deleted; 1 of its replicas are people's now",
        "fleet llm: r: removed",
    ]
    assert Replica.objects.filter(name="r").exists(), "a dry run"
    assert fleet_files.apply(loads(fewer), "tests") == lines
    assert not Replica.objects.filter(name="r").exists()
    assert fleet_files.apply(loads(PLAIN + "    sources: []\n"), "tests") == [
        "fleet llm: source pods: deleted"
    ]


def test_one_that_the_file_lists_stays_when_its_source_goes() -> None:
    fleet_files.apply(loads(FILE), "tests")
    owned("r", "rack")
    kept = PLAIN + '      - {name: r, url: "http://10.0.0.9:114"}\n    sources: []\n'
    fleet_files.apply(loads(kept), "tests")
    assert not ReplicaOwner.objects.exists()
    assert Replica.objects.filter(name="r").exists()


def test_another_kind_under_the_same_name_is_refused() -> None:
    fleet_files.apply(loads(FILE), "tests")
    other = FILE.replace("file: {path: rack.yaml}", "dns: {name: rack.example.org}")
    with pytest.raises(Invalid, match="source rack is of kind file") as refused:
        fleet_files.apply(loads(other), "tests")
    assert refused.value.errors[0].pointer == "/sources/0"
    assert DiscoverySource.objects.get(name="rack").kind == "file"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("name: pods", "name: rack", 'the name "rack" is already taken by'),
        ("site: east", "hardware: h100", 'unknown hardware class "h100"'),
        ("path: rack.yaml", "path: /etc/rack.yaml", "must be the path of a file below"),
        ("env:TOKEN", "sy-secret", "must be a reference"),
        ("file: {path: rack.yaml}, ", "", "needs one of file"),
        ("resync_s: 5", "resync_s: 500", "must be from 1 to 300 seconds"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(tmp_path: Path, old: str, new: str, words: str) -> None:
    said = refusal(tmp_path, FILE.replace(old, new))
    assert "fleets[0].sources[" in said
    assert words in said


def test_a_proxy_that_runs_from_the_file_alone_refuses_them(tmp_path: Path) -> None:
    path = tmp_path / "fleets.yaml"
    path.write_text(FILE)
    with pytest.raises(
        ValueError, match=r"line 8, .*fleets\[0\].sources: are followed by a control plane only"
    ):
        fleet_file_watcher.read(path)
    path.write_text(PLAIN + "    sources: []\n")
    assert fleet_file_watcher.read(path)[0].fleets


def test_in_a_file_of_several_fleets_each_has_its_own() -> None:
    two = FILE + PLAIN.split("fleets:\n")[1].replace("llm", "chat").replace("10.0.0.1", "10.0.0.2")
    fleet_files.apply(loads(two), "tests")
    assert sources.entries().keys() == {DiscoverySource.objects.filter(fleet__name="llm")[0].fleet_id}
