"""Drains with ``move`` in fleet files: applied, left alone where the file says nothing, and dumped."""

from pathlib import Path

import pytest

from controlplane.models import Replica
from controlplane.services import fleet_files
from controlplane.services.errors import Invalid
from routing.contract.fleet_file import loads
from tests.controlplane.management.test_commands import run

FILE = """\
version: 1
fleets:
  - name: llm
    protocol: openai
    expose: inference
    replicas:
      - {name: a, url: "http://10.0.0.1:8000"}
      - {name: b, url: "http://10.0.0.2:8000"}
"""
MOVES = FILE.replace('1:8000"', '1:8000", admin_state: draining, move: true')


def state() -> tuple[str, bool]:
    replica = Replica.objects.get(name="a")
    return replica.admin_state, replica.move


def test_it_is_applied_and_stays_where_the_file_says_nothing(tmp_path: Path) -> None:
    fleet_files.apply(loads(FILE), "tests")
    assert state() == ("active", False)
    assert fleet_files.apply(loads(MOVES), "tests", confirm_all=True) == [
        "fleet llm: a.admin_state: active → draining",
        "fleet llm: a.move: false → true",
    ]
    assert fleet_files.apply(loads(FILE), "tests") == []
    assert state() == ("draining", True)
    dumped = tmp_path / "dumped.yaml"
    dumped.write_text(run("dump"))
    assert "move: true" in dumped.read_text()
    fleet_files.apply(loads(MOVES.replace("draining, move: true", "active")), "tests")
    assert state() == ("active", False)
    fleet_files.apply(loads(dumped.read_text()), "tests", confirm_all=True)
    assert state() == ("draining", True)


@pytest.mark.parametrize("given", ["move: true", "admin_state: active, move: true"])
def test_of_a_replica_that_is_not_taken_out_nothing_is_moved(given: str) -> None:
    with pytest.raises(ValueError, match="set admin_state to draining or maintenance"):
        loads(FILE.replace('1:8000"', f'1:8000", {given}'))


def test_what_the_row_says_counts_where_the_file_gives_no_state() -> None:
    fleet_files.apply(loads(FILE), "tests")
    entry = loads(MOVES)
    with pytest.raises(Invalid, match="set admin_state"):
        fleet_files.replicas.update("llm", "a", {"move": True}, "tests")
    fleet_files.apply(entry, "tests", confirm_all=True)
    fleet_files.replicas.update("llm", "a", {"move": False}, "tests")
    assert state() == ("draining", False)
