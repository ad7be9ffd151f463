"""Reference: the table of built-in rules and the list of metrics in docs/alerts.md, printed from the code.

``python -m controlplane.alerts.reference docs/alerts.md`` writes them there; a test compares.
"""

import os
import re
import sys
from pathlib import Path

_ROWS = re.compile(r"(?<=\| --- \| --- \| --- \| --- \| --- \|\n)(?:\|.*\n)+")
_METRICS = re.compile(r"^Metrics: .*?\.$", re.MULTILINE | re.DOTALL)


def rule_rows() -> str:
    from controlplane.alerts import builtin_rules
    from controlplane.telemetry import durations

    return "".join(
        f"| `{rule.name}` | {rule.severity} | {durations.words(rule.for_s)} | {durations.words(rule.keep_s)} "
        f"| {rule.about} |\n"
        for rule in builtin_rules.rules()
    )


def metric_words() -> str:
    from controlplane.alerts.thresholds import METRICS, unit_of

    listed = (f"`{name}`{f' ({unit})' if (unit := unit_of(name)) else ''}" for name in METRICS)
    return f"Metrics: {', '.join(listed)}."


def rewritten(page: str) -> str:
    """The page with both as the code has them."""
    return _METRICS.sub(lambda _: metric_words(), _ROWS.sub(lambda _: rule_rows(), page, count=1))


if __name__ == "__main__":
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
    django.setup()
    path = Path(sys.argv[1])
    path.write_text(rewritten(path.read_text("utf-8")), "utf-8")
