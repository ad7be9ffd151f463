"""Exposure (allowlist of paths): what of its replicas' hosts the clients of a fleet may reach.

A replica's host serves more than inference: models are loaded there, weights are replaced, the server is
stopped. ``expose`` of a fleet says which paths a client key (or, without keys, anybody) may reach through it.
Pure.
"""

from dataclasses import dataclass
from typing import Literal

from routing.contract.addresses import path_prefix
from routing.contract.field_rules import (
    INVALID,
    FieldProblem,
    Problems,
    Rule,
    below,
    did_you_mean,
    enough,
    found,
)

Expose = Literal["inference", "all"] | list[str]
"""``inference``, ``all``, or paths: each with everything below it."""

INFERENCE: Literal["inference"] = "inference"
ALL: Literal["all"] = "all"
DEFAULT_EXPOSE = INFERENCE
"""Of a fleet that is created. One that was there before this setting has none (``None``): everything is
reachable, as it was, and what ``inference`` would refuse is counted."""

INFERENCE_CALL, NO_MANAGEMENT, ANY_PATH = 1, 2, 4
"""What may be said of a path, as bits: it is a call of a known inference API; it is no management path of a
known model server; always."""

MOST_PATHS = 100


def normalise_exposed_path(text: str) -> str:
    """A path as it is kept: without a slash at the end. Raises ValueError that says what to write instead."""
    if not text.startswith("/"):
        raise ValueError(f'"{text[:80]}" does not begin with a slash: write /{text[:79]}')
    for mark, name in (("?", "query"), ("#", "fragment"), ("%", "percent-encoding"), ("*", "wildcard")):
        if mark in text:
            cure = "it is compared decoded" if mark == "%" else f'remove everything from "{mark}" on'
            raise ValueError(f"an exposed path has no {name}: {cure}; a path includes everything below it")
    path = path_prefix(text[1:])
    if not path:
        raise ValueError('"/" is every path: write expose: all')
    return path


def required_bit(expose: Expose | None, protocol: str) -> int:
    """What a path must be to be open: one of the bits; 0: paths are listed. ``None`` is judged as
    ``inference``."""
    if expose == ALL:
        return ANY_PATH
    if isinstance(expose, list):
        return 0
    return NO_MANAGEMENT if protocol == "generic" else INFERENCE_CALL


@dataclass(frozen=True, kw_only=True)
class ExposeRule(Rule):
    """``inference``, ``all`` or a list of paths."""

    def _read(self, value: object, at: str, problems: Problems) -> object:
        if value in (INFERENCE, ALL):
            return value
        if not isinstance(value, list):
            hint = did_you_mean(value, (INFERENCE, ALL)) if isinstance(value, str) else ""
            if isinstance(value, str) and value.startswith("/"):
                hint = ": put it into a list"
            problems.append(
                FieldProblem(at, f"must be {INFERENCE}, {ALL} or a list of paths, not {found(value)}{hint}")
            )
            return INVALID
        if not 1 <= len(value) <= MOST_PATHS:
            problems.append(FieldProblem(at, f"must list 1 to {MOST_PATHS} paths; {ALL} is every path"))
            return INVALID
        kept: list[str] = []
        for index, item in enumerate(value):
            if enough(problems):
                break
            path = _path(item, below(at, index), problems)
            if path is not None and path not in kept:
                kept.append(path)
        return kept

    def kind(self) -> str:
        return f"`{INFERENCE}`, `{ALL}` or list of paths"


def _path(item: object, at: str, problems: Problems) -> str | None:
    if not isinstance(item, str):
        problems.append(FieldProblem(at, f"must be a path, not {found(item)}"))
        return None
    try:
        return normalise_exposed_path(item)
    except ValueError as error:
        problems.append(FieldProblem(at, str(error)))
        return None
