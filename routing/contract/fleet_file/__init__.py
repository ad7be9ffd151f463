"""The fleet file: one YAML file that describes fleets, read strictly.

The CLI applies it, ``dump`` writes it, and a proxy without a control plane routes from it. Every error
carries line, column, the field's path and the cure, and all errors are reported at once. The
reference for people is ``docs/fleet-file.md``.
"""

from routing.contract.fleet_file.cross_checks import ExistingState
from routing.contract.fleet_file.parser import FileProblem, FleetFileError, dump, load, loadb, loads
from routing.contract.fleet_file.structs import FleetEntry, FleetFile, HardwareEntry, ReplicaEntry
from routing.contract.policy_rules import StrategyRules

__all__ = [
    "ExistingState",
    "FileProblem",
    "FleetEntry",
    "FleetFile",
    "FleetFileError",
    "HardwareEntry",
    "ReplicaEntry",
    "StrategyRules",
    "dump",
    "load",
    "loadb",
    "loads",
]
