"""Tests stand where the code stands: each package of the two planes has a test folder of the same path."""

from pathlib import Path

from tests.docs.blocks import PROJECT

PLANES = ("routing", "controlplane")
ELSEWHERE = {
    "controlplane/datastores/postgresql": "tests/controlplane/datastores: with a real, hanging PostgreSQL",
    "controlplane/keda": "tests/system/test_c_scaling.py: over gRPC, with a whole stack behind it",
    "controlplane/management/commands": "tests/controlplane/management: commands, as Django finds them",
    "controlplane/models": "tests/controlplane/services: rows, and services alone write them",
    "controlplane/system": "tests/controlplane/api/test_system.py: whole, as the API tells it",
}
"""Package → the place of its tests, and why."""


def packages() -> list[Path]:
    """Folders with modules of their own, relative to the project."""
    found = []
    for plane in PLANES:
        for init in sorted((PROJECT / plane).rglob("__init__.py")):
            modules = [file for file in init.parent.glob("*.py") if file.name != "__init__.py"]
            if modules:
                found.append(init.parent.relative_to(PROJECT))
    return found


def test_each_package_has_its_test_folder() -> None:
    without = {str(one) for one in packages() if not list((PROJECT / "tests" / one).glob("test_*.py"))}
    assert without == set(ELSEWHERE), "a folder of tests is missing, or an exception holds no longer"


def test_the_other_places_are_there() -> None:
    for words in ELSEWHERE.values():
        for place in words.partition(":")[0].split(", "):
            assert (PROJECT / place).exists(), place
