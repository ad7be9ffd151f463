"""Effective settings: policies and probes with their defaults, and what changes between two of them.

Stored is what differs from the defaults (:func:`routing.contract.defaults.without_defaults`).
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from routing.contract.defaults import with_defaults
from routing.contract.policy import Policy
from routing.contract.probe import Probe
from routing.contract.table import Tls

SettingValues = dict[str, Any]


def policy_of(stored: Mapping[str, Any]) -> Policy:
    return with_defaults(dict(stored), Policy)


def probe_of(stored: Mapping[str, Any]) -> Probe:
    return with_defaults(dict(stored), Probe)


def tls_of(stored: Mapping[str, Any]) -> Tls:
    return with_defaults(dict(stored), Tls)


def effective(value: Policy | Probe | Tls) -> SettingValues:
    """Every field with its value."""
    fields: SettingValues = msgspec.to_builtins(value)
    return fields


def merged(stored: Mapping[str, Any], changes: Mapping[str, Any]) -> SettingValues:
    """A JSON merge patch (RFC 7396): groups are merged, ``null`` goes back to the default."""
    result: SettingValues = dict(stored)
    for name, value in changes.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, Mapping):
            before = result.get(name)
            result[name] = merged(before if isinstance(before, Mapping) else {}, value)
        else:
            result[name] = value
    return result


def differences(before: Mapping[str, Any], after: Mapping[str, Any], prefix: str = "") -> list[str]:
    """``timeouts.total_s: 600 → 30`` for each field that differs, for summaries and events."""
    lines: list[str] = []
    for name in {**before, **after}:
        old, new = before.get(name), after.get(name)
        if isinstance(old, Mapping) or isinstance(new, Mapping):
            lines += differences(old or {}, new or {}, f"{prefix}{name}.")
        elif old != new:
            lines.append(f"{prefix}{name}: {shown(old)} → {shown(new)}")
    return lines


def shown(value: Any) -> str:
    """A value as a summary writes it."""
    if value is None or value == "":
        return "not set"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ", ".join(map(shown, value)) or "none"
    if isinstance(value, Mapping):
        return " ".join(f"{name} {shown(part)}" for name, part in value.items())
    return f"{value:g}" if isinstance(value, float) else str(value)
