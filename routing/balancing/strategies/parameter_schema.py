"""Parameter schema of strategies: what they say about themselves, as forms, schemas and checks need it."""

import msgspec
from msgspec import inspect

from routing.contract.policy import StrategyParameter


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


def checked(strategy: str, parameter: ParameterDescription, value: StrategyParameter) -> StrategyParameter:
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


def parameters_of(struct: type[msgspec.Struct]) -> list[ParameterDescription]:
    """Read a parameter struct's fields, bounds and words. Raises ValueError where no form could show one."""
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
        if kind.gt is not None or kind.lt is not None or kind.multiple_of is not None:
            raise ValueError(f"parameter {field.name!r} has a bound other than ge and le")
    if type(kind) not in _TYPE_NAMES:
        raise ValueError(f"parameter {field.name!r} is none of float, int, bool and str, as forms show")
    if field.default is msgspec.NODEFAULT:
        raise ValueError(f"parameter {field.name!r} has no default")
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
