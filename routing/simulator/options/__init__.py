"""Command-line options of the simulator: what is compared and on what, with messages for wrong values."""

from routing.simulator.options.command_line import SimulationOptions, nothing_arrived, parse
from routing.simulator.options.errors import BadSimulationOptions

__all__ = ["BadSimulationOptions", "SimulationOptions", "nothing_arrived", "parse"]
