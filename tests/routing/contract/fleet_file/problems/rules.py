"""A fleet file that begins well, strategies with known rules, and the problems that a text has."""

from collections.abc import Mapping

import pytest

from routing.contract.fleet_file import FleetFileError, StrategyRules, loads
from routing.contract.policy import StrategyParameter


def build(name: str, parameters: Mapping[str, StrategyParameter]) -> object:
    """Parameters as a strategy called `prudent` with one of them, kappa above 0, would check them."""
    for key, value in parameters.items():
        if key != "kappa":
            raise ValueError(f"{name} has no parameter {key}; its parameters are: kappa")
        if not isinstance(value, float) or value <= 0:
            raise ValueError(f"kappa must be above 0, not {value!r}")
    return object()


STRATEGIES = StrategyRules(names=["least_expected_work", "round_robin", "prudent"], build=build)


FLEET = """\
fleets:
  - name: digits
    protocol: open-inference
"""


def problems_of(text: str) -> list[str]:
    with pytest.raises(FleetFileError) as caught:
        loads(text, "fleets.yaml", strategies=STRATEGIES)
    return [f"{line}:{column} {path}: {message}" for line, column, path, message in caught.value.problems]
