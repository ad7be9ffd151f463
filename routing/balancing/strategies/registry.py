"""All strategies by their API name, what they say about themselves, and how to build one.

Forms in API and pages are made from :func:`describe`; nothing about a strategy is written down twice.
"""

from collections.abc import Mapping
from typing import Any, cast

from routing.balancing.strategies import third_party
from routing.balancing.strategies.base import Strategy
from routing.balancing.strategies.consistent_hash import ConsistentHash
from routing.balancing.strategies.fault_isolation import IsolatedStrategy
from routing.balancing.strategies.latency_aware import LatencyAware
from routing.balancing.strategies.least_connections import LeastConnections
from routing.balancing.strategies.least_expected_work import LeastExpectedWork
from routing.balancing.strategies.least_response_time import LeastResponseTime
from routing.balancing.strategies.parameter_schema import StrategyDescription, checked, parameters_of
from routing.balancing.strategies.peak_ewma import PeakEwma
from routing.balancing.strategies.power_of_two import PowerOfTwo
from routing.balancing.strategies.prefix_affinity import PrefixAffinity
from routing.balancing.strategies.prequal import Prequal
from routing.balancing.strategies.round_robin import RoundRobin
from routing.balancing.strategies.weighted_random import WeightedRandom
from routing.contract.policy import StrategyParameter

_STRATEGIES: dict[str, type[Strategy]] = {
    strategy.name: strategy
    for strategy in (
        LeastExpectedWork,
        LeastConnections,
        RoundRobin,
        WeightedRandom,
        PowerOfTwo,
        LeastResponseTime,
        PeakEwma,
        LatencyAware,
        Prequal,
        ConsistentHash,
        PrefixAffinity,
    )
}


def names() -> list[str]:
    """API names of all strategies: the default first, those of other packages last."""
    return [*_STRATEGIES, *_others().strategies]


def own_names() -> list[str]:
    """Of those that are part of the project."""
    return list(_STRATEGIES)


def why_not(name: str) -> str:
    """Why a strategy that a package brings cannot be used; empty: no package brings it, or it can."""
    return _others().unusable.get(name, "")


def describe(name: str) -> StrategyDescription:
    """What a strategy is and what can be set. Raises ValueError when there is none of that name."""
    strategy = _named(name)
    return StrategyDescription(
        name=strategy.name, sentence=strategy.sentence, parameters=parameters_of(strategy.Parameters)
    )


def build(name: str, parameters: Mapping[str, StrategyParameter]) -> Strategy:
    """A strategy with these parameters, defaults for those not given.

    Raises ValueError that names the parameter and says what would be right.
    """
    strategy = _named(name)
    known = {parameter.name: parameter for parameter in parameters_of(strategy.Parameters)}
    values: dict[str, Any] = {}
    for key, value in parameters.items():
        if key not in known:
            allowed = f"its parameters are: {', '.join(known)}" if known else "it has none"
            raise ValueError(f"{name} has no parameter {key!r}; {allowed}")
        values[key] = checked(name, known[key], value)
    if name in _STRATEGIES:
        return strategy(strategy.Parameters(**values))
    try:
        return cast("Strategy", IsolatedStrategy(strategy(strategy.Parameters(**values))))
    except Exception as error:
        raise ValueError(f"{name} refuses its parameters: {type(error).__name__}: {error}") from error


def _others() -> third_party.Discovered:
    return third_party.discover(frozenset(_STRATEGIES))


def _named(name: str) -> type[Strategy]:
    strategy = _STRATEGIES.get(name)
    if strategy is not None:
        return strategy
    found = _others()
    strategy = found.strategies.get(name)
    if strategy is not None:
        return strategy
    if name in found.unusable:
        raise ValueError(f"strategy {name!r} cannot be used: {found.unusable[name]}")
    raise ValueError(
        f"there is no strategy {name!r}; choose one of: {', '.join(names())}; or install the package that "
        f"brings it here, too, and restart"
    )
