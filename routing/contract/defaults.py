"""Defaults of msgspec structs: removing and restoring them. Each default is defined once, in its struct."""

from typing import Any, TypeVar

import msgspec

S = TypeVar("S", bound=msgspec.Struct)


def default_of(field: msgspec.structs.FieldInfo) -> Any:
    """A field's default, or ``msgspec.NODEFAULT`` when it must be given."""
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return field.default


def without_defaults(struct: msgspec.Struct) -> dict[str, Any]:
    """Only the fields that differ from their defaults, nested structs and lists alike, as plain values.

    ``msgspec.convert(without_defaults(x), type(x)) == x``. This is the form in which policies and
    probes are stored, and in which a fleet file is written.
    """
    result: dict[str, Any] = {}
    for field in msgspec.structs.fields(struct):
        value = getattr(struct, field.name)
        if value != default_of(field):
            result[field.encode_name] = _plain(value)
    return result


def with_defaults(settings: dict[str, Any], kind: type[S]) -> S:
    """The struct with these settings and defaults for the rest. ``None`` means "as if not set".

    Raises :class:`msgspec.ValidationError`; settings that passed the rules convert without error.
    """
    return msgspec.convert(_without_nones(settings), kind)


def _plain(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        return without_defaults(value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


def _without_nones(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nones(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nones(item) for item in value]
    return value
