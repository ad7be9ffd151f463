"""The tables of ``docs/answers.md``, from the table of faults.

python -m tests.routing.proxy.answers.page docs/answers.md
"""

import re
import sys
from pathlib import Path

from tests.routing.proxy.answers.faults import FAULTS, FLAPPING
from tests.routing.proxy.answers.setups import SETUPS

_TABLES = re.compile(r"(<!-- table: (plain|streamed) -->\n\n)(?:\|.*\n)*")


def refreshed(page: str) -> str:
    """The page with its tables as they should be."""
    return _TABLES.sub(lambda found: found[1] + _table(found[2] == "streamed"), page)


def _table(stream: bool) -> str:
    lines = [
        "| what the replica does | " + " | ".join(setup.words for setup in SETUPS) + " |",
        "| --- |" + " --- |" * len(SETUPS),
    ]
    for fault in (*FAULTS, FLAPPING):
        cells = [fault.expected(setup.name, stream) for setup in SETUPS]
        if None not in cells:
            lines.append(f"| {fault.words} | " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(refreshed(path.read_text("utf-8")), "utf-8")
