"""How a replica is picked: one file per strategy, each pure, each with its theory in its docstring.

The control plane builds its forms from what is here, so nothing heavy may be imported.
"""

from routing.strategies.registry import ParameterDescription, StrategyDescription, build, describe, names

__all__ = ["ParameterDescription", "StrategyDescription", "build", "describe", "names"]
