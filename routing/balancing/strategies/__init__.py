"""Load-balancing strategies: one file each, with its theory in its docstring.

None has a clock, a source of chance or I/O of its own: with the same state, the same arguments give the same
pick.

The control plane builds its forms from what is here, so nothing heavy may be imported.
"""

from routing.balancing.strategies.parameter_schema import ParameterDescription, StrategyDescription
from routing.balancing.strategies.registry import build, describe, names, why_not

__all__ = ["ParameterDescription", "StrategyDescription", "build", "describe", "names", "why_not"]
