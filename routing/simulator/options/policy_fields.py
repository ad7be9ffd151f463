"""Fields of the simulated pool's policy as the command line gives them: checked as in a fleet file."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from routing.contract.policy import Policy
from routing.contract.policy_rules import check_policy

ELSEWHERE = {"strategy": "--strategies", "parameters": "--parameters"}
"""Fields that have an option of their own, which may name several strategies."""


def with_fields(policy: Policy, fields: Sequence[str]) -> Policy:
    """The policy with each ``KEY=VALUE``; ``queue.size=7`` is a field of a group. A value is JSON, or else a
    text. Raises ValueError in words where a field is unknown or its value is not valid."""
    given: dict[str, Any] = {}
    for text in fields:
        key, equals, value = text.partition("=")
        *groups, name = key.split(".")
        if not equals or not all((*groups, name)):
            raise ValueError(f"{text!r}: write it as KEY=VALUE, as in max_concurrency=64 or queue.size=7")
        if (top := key.split(".")[0]) in ELSEWHERE:
            raise ValueError(f"{text!r}: give {ELSEWHERE[top]} instead")
        inner = given
        for group in groups:
            inner = inner.setdefault(group, {})
            if not isinstance(inner, dict):
                raise ValueError(f"{text!r}: {group} is given as a whole and in part; give one of the two")
        inner[name] = _value(value)
    kept, problems = check_policy(given)
    if problems:
        where = problems[0].pointer.lstrip("/").replace("/", ".")
        raise ValueError(f"{where}: {problems[0].message}" if where else problems[0].message)
    return msgspec.convert(_merged(msgspec.to_builtins(policy), kept), Policy)


def _value(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def _merged(whole: Mapping[str, Any], part: Mapping[str, Any]) -> dict[str, Any]:
    """Groups are merged field by field."""
    merged = dict(whole)
    for key, value in part.items():
        old = merged.get(key)
        merged[key] = _merged(old, value) if isinstance(old, dict) and isinstance(value, Mapping) else value
    return merged
