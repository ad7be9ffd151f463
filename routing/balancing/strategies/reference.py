"""The table of the page ``docs/strategies.md``, made from what strategies say about themselves.

``python -m routing.balancing.strategies.reference docs/strategies.md`` writes it into the page; a test fails
while the page says anything else.
"""

import re
import sys
from pathlib import Path

from routing.balancing.strategies import registry
from routing.balancing.strategies.parameter_schema import ParameterDescription

_MARKED = re.compile(r"(<!-- table: strategies -->\n).*?(<!-- end of table -->)", re.DOTALL)


def refreshed(page: str) -> str:
    """The page with its marked table as it should be."""
    return _MARKED.sub(lambda match: match[1] + table() + match[2], page)


def table() -> str:
    """One row a strategy, each parameter with range and default."""
    lines = ["| strategy | what it does | parameters |", "| --- | --- | --- |"]
    for name in registry.own_names():
        strategy = registry.describe(name)
        parameters = "<br>".join(_parameter(one) for one in strategy.parameters) or "none"
        lines.append(f"| `{name}` | {strategy.sentence} | {parameters} |")
    return "\n".join([*lines, ""])


def _parameter(one: ParameterDescription) -> str:
    bounds = (one.minimum, one.maximum)
    limits = "" if None in bounds else ", {:g} to {:g}".format(*bounds)
    return f"`{one.name}`{limits}, default {_default(one)}. {one.words}"


def _default(one: ParameterDescription) -> str:
    if isinstance(one.default, str):
        return f"`{one.default}`" if one.default else "empty"
    return f"{one.default:g}" if isinstance(one.default, float) else str(one.default).lower()


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(refreshed(path.read_text("utf-8")), "utf-8")
