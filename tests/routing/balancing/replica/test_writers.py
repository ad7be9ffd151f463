"""The list of who sets which field of a replica, held to the code."""

import ast
import re
from collections import defaultdict
from pathlib import Path

from routing.balancing.replica import state

BALANCING = Path(state.__file__).parents[1]
FIELDS = set(state.Replica.__slots__)
NAMES = {"replica", "self.replica", "best"}
"""What the code calls a replica where it sets a field of one."""


def written(file: Path) -> set[str]:
    nodes = [node for node in ast.walk(ast.parse(file.read_text("utf-8"))) if isinstance(node, ast.Attribute)]
    changed = [node for node in nodes if not isinstance(node.ctx, ast.Load)]
    return FIELDS & {node.attr for node in changed if ast.unparse(node.value) in NAMES}


def test_the_list_says_what_the_code_does() -> None:
    listed = defaultdict(set)
    for module, words in re.findall(r"^- ``([\w.]+)``([^-]*)", state.__doc__ or "", re.MULTILINE):
        listed[module] = FIELDS & set(re.findall(r"\w+", words))
    found = {}
    for file in sorted(BALANCING.rglob("*.py")):
        fields = written(file)
        if fields and file.name != "state.py":
            found[".".join(file.relative_to(BALANCING).with_suffix("").parts)] = fields
    assert dict(listed) == found
