"""Selectors: which labels, with which values, a fleet must have. Written ``team=search,env=prod``."""

from collections.abc import Mapping

from routing.contract.label_rules import MAX_LABELS, label_name_problem, label_value_problem

Selector = Mapping[str, str]
"""Label → value; all must be there. Empty: any fleet."""


def parse_selector(text: str) -> dict[str, str]:
    """``team=search,env=prod`` → ``{"team": "search", "env": "prod"}``. Raises ValueError with the cure."""
    selector: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = part.strip().partition("=")
        if not equals:
            raise ValueError(f'"{part.strip()[:80]}" is no label with a value: write it as team=search')
        if problem := label_name_problem(name) or label_value_problem(value):
            raise ValueError(problem)
        if selector.setdefault(name, value) != value:
            raise ValueError(f'a fleet has one value of "{name}" only: give the role twice, once for each')
    if len(selector) > MAX_LABELS:
        raise ValueError(f"at most {MAX_LABELS} labels are allowed")
    return selector


def selector_text(selector: Selector) -> str:
    """As :func:`parse_selector` reads it; ``all fleets`` for the empty one."""
    return ",".join(f"{name}={value}" for name, value in sorted(selector.items())) or "all fleets"


def selects(selector: Selector, labels: Mapping[str, str]) -> bool:
    """Whether a fleet with these labels is meant."""
    return all(labels.get(name) == value for name, value in selector.items())
