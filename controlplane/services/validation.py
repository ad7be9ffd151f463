"""Validation: the contract's checks of what people write, as errors of the services."""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from controlplane.services.errors import FieldError, Invalid
from routing.balancing.strategies import registry
from routing.contract.field_rules import MOST_PROBLEMS, FieldProblem, did_you_mean
from routing.contract.policy_rules import StrategyRules, check_policy, strategy_problems

STRATEGIES = StrategyRules(names=registry.names(), build=registry.build, why_not=registry.why_not)

Checked = tuple[dict[str, Any], list[FieldProblem]]


def accepted(checked: Checked, more: Iterable[FieldProblem] = ()) -> dict[str, Any]:
    """What was checked, or Invalid with every problem."""
    kept, problems = checked
    refuse([*problems, *more])
    return kept


def refuse(problems: Iterable[FieldProblem]) -> None:
    """Raises Invalid with the first of them, if there are any; no more are looked for than anybody reads."""
    found = islice(problems, MOST_PROBLEMS)
    errors = [FieldError(problem.pointer, problem.message) for problem in found]
    if errors:
        raise Invalid(errors)


def accepted_policy(settings: Mapping[str, Any]) -> dict[str, Any]:
    """A whole policy's settings, its strategy and parameters included."""
    return accepted(check_policy(settings, STRATEGIES))


def policy_problems(policy: object, at: str) -> list[FieldProblem]:
    """Of a policy whose fields have been checked already: strategy and parameters."""
    return strategy_problems(policy, at, STRATEGIES) if isinstance(policy, Mapping) else []


def immutable(settings: Mapping[str, Any], names: Iterable[str], why: str) -> list[FieldProblem]:
    return [FieldProblem(f"/{name}", why) for name in names if name in settings]


def unknown_name(kind: str, name: str, known: Iterable[str]) -> str:
    """``there is no hardware class "h10"; did you mean "h100"?``"""
    known = list(known)
    hint = did_you_mean(name, known)
    if not hint:
        hint = f"; there are: {', '.join(sorted(known)[:20])}" if known else "; there are none yet"
    return f'there is no {kind} "{name}"{hint}'
