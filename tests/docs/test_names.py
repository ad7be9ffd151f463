"""What a search finds: no two classes of one name, and each package in the map of CONTRIBUTING.md."""

import ast
import re
from collections import defaultdict

from tests.docs.blocks import PROJECT

PLANES = ("routing", "controlplane", "dashboard", "bootstrap")
DJANGO_WANTS = {"Migration", "Command"}
BOTH_PLANES = {"Replica"}
"""A row of the control plane, and the live state of the same thing in the data plane."""
SPLIT = ("routing", "routing/balancing", "controlplane")
"""Folders whose packages are listed each for itself."""


def test_no_two_classes_have_one_name() -> None:
    found = defaultdict(list)
    for plane in PLANES:
        for file in sorted((PROJECT / plane).rglob("*.py")):
            if "vendor" not in file.parts:
                tree = ast.parse(file.read_text("utf-8"))
                for node in tree.body:
                    if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                        found[node.name].append(str(file.relative_to(PROJECT)))
    several = {name: files for name, files in found.items() if len(files) > 1}
    assert several.keys() - DJANGO_WANTS == BOTH_PLANES, several


def test_each_package_is_in_the_map() -> None:
    rows = re.findall(r"^\| .* \| (.*) \|$", (PROJECT / "CONTRIBUTING.md").read_text("utf-8"), re.MULTILINE)
    named, missing = " ".join(rows), []
    for folder in SPLIT:
        for package in sorted((PROJECT / folder).iterdir()):
            is_split = f"{folder}/{package.name}" in SPLIT or package.name == "migrations"
            if (package / "__init__.py").exists() and not is_split:
                path = f"{folder}/{package.name}/"
                missing += [path] if f"`{path}" not in named else []
    assert not missing
