"""Runs ``switchyard import`` in this process on files that a test writes."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from controlplane.importing.command import main
from routing.balancing import strategies
from routing.contract import fleet_file

SAMPLES = Path(__file__).parent / "samples"


class Imported(NamedTuple):
    """What came of one import."""

    status: int
    out: str
    told: str
    """Standard error."""

    @property
    def fleets(self) -> dict[str, fleet_file.FleetEntry]:
        """What the strict reader makes of the output, by name."""
        rules = fleet_file.StrategyRules(strategies.names(), strategies.build)
        return {fleet.name: fleet for fleet in fleet_file.loads(self.out, strategies=rules).fleets}

    def note(self, words: str) -> str:
        """The one line told that holds these words."""
        (line,) = [line.strip() for line in self.told.splitlines() if words in line]
        return line


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Imported]:
    def import_(*arguments: object) -> Imported:
        status = main([str(one) for one in arguments])
        return Imported(status, *capsys.readouterr())

    return import_


def importing(run: Callable[..., Imported], kind: str, path: Path) -> Callable[..., Imported]:
    def import_(text: str, *flags: str) -> Imported:
        path.write_text(text)
        return run(kind, path, *flags)

    return import_


@pytest.fixture
def nginx(run: Callable[..., Imported], tmp_path: Path) -> Callable[..., Imported]:
    """``nginx("upstream …", "--protocol", "openai")``: imports that text as a file ``nginx.conf``."""

    return importing(run, "nginx", tmp_path / "nginx.conf")


@pytest.fixture
def litellm(run: Callable[..., Imported], tmp_path: Path) -> Callable[..., Imported]:
    return importing(run, "litellm", tmp_path / "config.yaml")
