"""Accelerators in fleet files: applied, dumped, pruned; what does not fit is told with line and column."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from controlplane.models import Accelerator, Replica
from controlplane.services import accelerators, fleet_files
from controlplane.services.errors import Conflict, Invalid
from routing.contract.fleet_file import loads
from tests.controlplane.management.test_commands import run

FILE = """\
version: 1
accelerators:
  - {name: node1/gpu0, memory_bytes: 100, headroom_percent: 0}
  - {name: node1/gpu1, memory_bytes: 100, headroom_percent: 0}
fleets:
  - name: llm
    protocol: openai
    expose: inference
    replicas:
      - {name: a, url: "http://10.0.0.1:8000", accelerators: [node1/gpu0], memory_bytes: 60}
      - {name: b, url: "http://10.0.0.2:8000", accelerators: [node1/gpu1], memory_bytes: 70, request_bytes: 5}
"""


@pytest.fixture
def apply(tmp_path: Path) -> Any:
    def apply(text: str, **options: Any) -> list[str]:
        file = tmp_path / "fleets.yaml"
        file.write_text(text)
        return run("apply", str(file), **options).splitlines()

    return apply


def test_applied_twice_and_dumped_it_is_the_same(apply: Any) -> None:
    assert apply(FILE) == [
        "accelerator node1/gpu0: created",
        "accelerator node1/gpu1: created",
        "fleet llm: created with 2 replicas",
    ]
    assert apply(FILE) == ["Nothing to change."]
    assert loads(run("dump")) == loads(FILE)
    changed = FILE.replace("memory_bytes: 60", "memory_bytes: 61").replace(
        "request_bytes: 5", "request_bytes: 6"
    )
    assert apply(changed) == [
        "fleet llm: a.memory_bytes: 60 bytes → 61 bytes",
        "fleet llm: b.request_bytes: 5 bytes → 6 bytes",
    ]


def swapped(text: str) -> str:
    return (
        text.replace("[node1/gpu0]", "[x]")
        .replace("[node1/gpu1]", "[node1/gpu0]")
        .replace("[x]", "[node1/gpu1]")
    )


def test_two_replicas_that_fit_alone_change_places(apply: Any) -> None:
    """In between, both are on one device: what counts is how it is when all is written."""
    apply(FILE)
    assert apply(swapped(FILE)) == [
        "fleet llm: a.accelerators: node1/gpu0 → node1/gpu1",
        "fleet llm: b.accelerators: node1/gpu1 → node1/gpu0",
    ]


def test_a_replica_moves_to_a_new_fleet_on_the_same_device(apply: Any) -> None:
    apply(FILE)
    line = '      - {name: a, url: "http://10.0.0.1:8000", accelerators: [node1/gpu0], memory_bytes: 60}\n'
    apply(
        FILE.replace(line, "").replace(
            "fleets:\n", f"fleets:\n  - name: new\n    protocol: openai\n    replicas:\n{line}"
        )
    )
    assert Replica.objects.get(name="a").fleet.name == "new"


def test_what_a_staying_fleet_holds_counts(apply: Any) -> None:
    apply(FILE)
    more = """\
fleets:
  - name: other
    protocol: openai
    replicas:
      - {name: c, url: "http://10.0.0.3:8000", accelerators: [node1/gpu0], memory_bytes: 41}
"""
    with pytest.raises(
        CommandError, match=r"line 5, column 90: fleets\[0\].replicas\[0\].memory_bytes: does not fit"
    ):
        apply(more)
    assert apply(more, prune=True, confirm=True)[:1] == ["fleet llm: deleted"]
    assert list(Accelerator.objects.values_list("name", flat=True)) == ["node1/gpu0"], "the other is pruned"


def test_what_somebody_else_puts_there_meanwhile_counts(apply: Any) -> None:
    """The file was checked before; the sum is taken again when all of it is written. Nothing stays."""
    apply(FILE)
    checked = loads(FILE.replace("memory_bytes: 60", "memory_bytes: 90"))
    accelerators.update("node1/gpu0", {"headroom_percent": 20.0}, "w")
    stale = msgspec.structs.replace(checked, accelerators=[])
    for dry_run in (True, False):
        with pytest.raises(Conflict, match="does not fit on accelerator node1/gpu0"):
            fleet_files.apply(stale, "w", dry_run=dry_run)
    assert Replica.objects.get(name="a").memory_bytes == 60


def test_a_device_that_is_deleted_meanwhile_is_missed(apply: Any) -> None:
    apply(FILE)
    later = loads(FILE.replace("node1/gpu0", "node1/gpu2"))
    with pytest.raises(Invalid, match='there is no accelerator "node1/gpu2"; did you mean "node1/gpu1"'):
        fleet_files.apply(msgspec.structs.replace(later, accelerators=[]), "w")


def test_a_backup_holds_them(apply: Any, tmp_path: Path) -> None:
    apply(FILE)
    before = run("dump")
    call_command("backup", tmp_path / "backup")
    apply("fleets: []", prune=True, confirm=True)
    assert not Accelerator.objects.exists()
    call_command("restore", tmp_path / "backup", "--replace")
    assert run("dump") == before
