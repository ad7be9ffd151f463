"""Strategy plug-ins: strategies of other packages, by the entry point ``switchyard.strategies``.

They are looked up once a process: when a name is asked for that is not one of the project's own, or when all
names are. One that cannot be used is left out. The reason is in the log once, and wherever its name is used.
It never keeps a process from starting.
"""

import logging
import re
from collections import Counter
from functools import cache
from random import Random
from typing import Any, NamedTuple

import msgspec

from routing import compiled
from routing.balancing.affinity import Affinity
from routing.balancing.replica.state import Replica
from routing.balancing.strategies.base import AnswerMemory, Strategy
from routing.balancing.strategies.parameter_schema import checked, parameters_of
from routing.contract.table import ReplicaSpec

GROUP = "switchyard.strategies"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
_KEPT = ("mean", "peak", "tail", "by load")

log = logging.getLogger(__name__)


class Discovered(NamedTuple):
    strategies: dict[str, type[Strategy]]
    """By name, in order of names."""
    unusable: dict[str, str]
    """Name → which package brings it, and what is wrong with it."""


@cache
def discover(own: frozenset[str]) -> Discovered:
    """What is installed beside this process. ``own``: names that the project has itself."""
    from importlib.metadata import entry_points

    entries = sorted(entry_points(group=GROUP), key=lambda entry: entry.name)
    times = Counter(entry.name for entry in entries)
    strategies: dict[str, type[Strategy]] = {}
    unusable: dict[str, str] = {}
    for entry in entries:
        brings = f"package {entry.dist.name} {entry.dist.version}" if entry.dist else "a package"
        try:
            if times[entry.name] > 1:
                raise ValueError("another package brings one of the same name; remove one of them")
            if entry.name in own:
                raise ValueError("the name is taken by one of Switchyard's own, which is used")
            strategies[entry.name] = _usable(entry.name, entry.load())
        except (Exception, SystemExit) as error:
            why = str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}"
            unusable[entry.name] = f"{brings} brings it, but {why}"
            log.error("strategy %s cannot be used: %s", entry.name, unusable[entry.name])
    return Discovered(strategies, unusable)


def _usable(name: str, strategy: Any) -> type[Strategy]:
    """The class, if it can be used; ValueError in words otherwise."""
    if not isinstance(strategy, type):
        raise ValueError(f"what its entry point names is no class but {strategy!r}")
    if not _NAME.fullmatch(name):
        raise ValueError("its name must be small letters, digits and _, at most 63, beginning with a letter")
    for base in strategy.__mro__[1:]:
        # In every process, compiled or not: what the control plane accepts must work in a worker.
        if base.__module__ in compiled.MODULES:
            raise ValueError(
                f"its class derives from {base.__name__}, which workers run compiled: have it hold one"
            )
    if getattr(strategy, "name", None) != name:
        raise ValueError(f"its class must have the entry point's name: name = {name!r}")
    for needed, kind in (("sentence", str), ("weighs_waiting", bool)):
        if not isinstance(getattr(strategy, needed, None), kind):
            raise ValueError(f"its class must have {needed}, of type {kind.__name__}")
    parameters: Any = getattr(strategy, "Parameters", None)
    if not (isinstance(parameters, type) and issubclass(parameters, msgspec.Struct)):
        raise ValueError("its class must have Parameters, a class derived from msgspec.Struct")
    for one in parameters_of(parameters):
        checked(name, one, one.default)
    _try(strategy(parameters()))
    return strategy


def _try(built: Any) -> None:
    """Let it pick once."""
    memory = getattr(built, "memory", 0)
    is_one = isinstance(memory, AnswerMemory) and memory.kept in _KEPT and memory.tau_s > 0
    if memory is not None and not is_one:
        raise ValueError(f"its memory must be None or an AnswerMemory, not {memory!r}")
    affinity = getattr(built, "affinity", 0)
    if affinity is not None and not isinstance(affinity, Affinity):
        raise ValueError(f"its affinity must be None or an Affinity, not {affinity!r}")
    specs = [ReplicaSpec(uid=name, name=name, url=f"http://{name}.example") for name in ("a", "b", "c")]
    candidates = tuple(Replica(spec) for spec in specs)
    if built.pick(candidates, 1.0, 1.0, Random(1)) not in candidates:
        raise ValueError("its pick returns something else than one of the candidates")
