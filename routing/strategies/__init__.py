"""How a replica is picked: one file per strategy, each pure, each with its theory in its docstring.

The control plane builds its forms from what is here, so nothing heavy may be imported.
"""

from routing.strategies.describing import ParameterDescription, StrategyDescription
from routing.strategies.registry import build, describe, names, why_not

__all__ = ["ParameterDescription", "StrategyDescription", "build", "describe", "names", "why_not"]
