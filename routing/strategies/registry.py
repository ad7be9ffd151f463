"""All strategies by their API name, what they say about themselves, and how to build one.

Forms in API and pages are made from :func:`describe`; nothing about a strategy is written down twice.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import inspect

from routing.contract.policy import StrategyParameter
from routing.strategies.base import Strategy
from routing.strategies.consistent_hash import ConsistentHash
from routing.strategies.latency_aware import LatencyAware
from routing.strategies.least_connections import LeastConnections
from routing.strategies.least_expected_work import LeastExpectedWork
from routing.strategies.least_response_time import LeastResponseTime
from routing.strategies.peak_ewma import PeakEwma
from routing.strategies.power_of_two import PowerOfTwo
from routing.strategies.prequal import Prequal
from routing.strategies.round_robin import RoundRobin
from routing.strategies.weighted_random import WeightedRandom

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
    )
}


class ParameterDescription(msgspec.Struct, frozen=True, kw_only=True):
    """One parameter, as a form needs it."""

    name: str
    type: str
    """``number``, ``integer``, ``boolean`` or ``string``."""
    default: StrategyParameter
    minimum: float | None = None
    maximum: float | None = None
    words: str = ""


class StrategyDescription(msgspec.Struct, frozen=True, kw_only=True):
    """One strategy, for people who choose."""

    name: str
    sentence: str
    parameters: list[ParameterDescription]


def names() -> list[str]:
    """API names of all strategies, the default first."""
    return list(_STRATEGIES)


def describe(name: str) -> StrategyDescription:
    """What a strategy is and what can be set. Raises ValueError when there is none of that name."""
    strategy = _named(name)
    return StrategyDescription(
        name=strategy.name, sentence=strategy.sentence, parameters=_parameters(strategy.Parameters)
    )


def build(name: str, parameters: Mapping[str, StrategyParameter]) -> Strategy:
    """A strategy with these parameters, defaults for those not given.

    Raises ValueError that names the parameter and says what would be right.
    """
    strategy = _named(name)
    known = {parameter.name: parameter for parameter in _parameters(strategy.Parameters)}
    values: dict[str, Any] = {}
    for key, value in parameters.items():
        if key not in known:
            allowed = f"its parameters are: {', '.join(known)}" if known else "it has none"
            raise ValueError(f"{name} has no parameter {key!r}; {allowed}")
        values[key] = _checked(name, known[key], value)
    return strategy(strategy.Parameters(**values))


def _named(name: str) -> type[Strategy]:
    strategy = _STRATEGIES.get(name)
    if strategy is None:
        raise ValueError(f"there is no strategy {name!r}; choose one of: {', '.join(_STRATEGIES)}")
    return strategy


def _checked(strategy: str, parameter: ParameterDescription, value: StrategyParameter) -> StrategyParameter:
    """The value as its type, or ValueError in words."""
    where = f"parameter {parameter.name!r} of {strategy}"
    fits = {
        "number": isinstance(value, int | float) and not isinstance(value, bool),
        "integer": isinstance(value, int) and not isinstance(value, bool),
        "boolean": isinstance(value, bool),
        "string": isinstance(value, str),
    }[parameter.type]
    if not fits:
        raise ValueError(f"{where} must be {_TYPE_WORDS[parameter.type]}, not {value!r}")
    if parameter.type in ("number", "integer"):
        number = float(value)
        low, high = parameter.minimum, parameter.maximum
        # Written so that not-a-number is refused as well.
        if not ((low is None or number >= low) and (high is None or number <= high)):
            raise ValueError(f"{where} must be {_bounds(low, high)}, not {value!r}")
    return float(value) if parameter.type == "number" else value


def _bounds(low: float | None, high: float | None) -> str:
    if low is not None and high is not None:
        return f"between {low:g} and {high:g}"
    return f"at least {low:g}" if low is not None else f"at most {high:g}"


def _parameters(struct: type[msgspec.Struct]) -> list[ParameterDescription]:
    """Read a parameter struct's fields, bounds and words."""
    info = inspect.type_info(struct)
    assert isinstance(info, inspect.StructType)
    return [_parameter(field) for field in info.fields]


def _parameter(field: inspect.Field) -> ParameterDescription:
    kind, words = field.type, ""
    if isinstance(kind, inspect.Metadata):
        words = str((kind.extra_json_schema or {}).get("description", ""))
        kind = kind.type
    minimum = maximum = None
    if isinstance(kind, inspect.FloatType | inspect.IntType):
        minimum, maximum = kind.ge, kind.le
    return ParameterDescription(
        name=field.name,
        type=_TYPE_NAMES[type(kind)],
        default=field.default,
        minimum=minimum,
        maximum=maximum,
        words=words,
    )


_TYPE_WORDS = {
    "number": "a number",
    "integer": "a whole number",
    "boolean": "true or false",
    "string": "text",
}
_TYPE_NAMES: dict[type[inspect.Type], str] = {
    inspect.FloatType: "number",
    inspect.IntType: "integer",
    inspect.BoolType: "boolean",
    inspect.StrType: "string",
}
