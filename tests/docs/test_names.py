"""What a search finds: no two classes or types of one name, and each package in the map of CONTRIBUTING."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

from tests.docs.blocks import PROJECT

PLANES = ("routing", "controlplane", "dashboard", "bootstrap")
DJANGO_WANTS = {"Migration", "Command", "Meta"}
BOTH_PLANES = {"Replica"}
"""A row of the control plane, and the live state of the same thing in the data plane."""
SPLIT = ("routing", "routing/balancing", "controlplane")
"""Folders whose packages are listed each for itself."""
_IS_CAPITALIZED = re.compile(r"_*[A-Z][A-Za-z0-9]*[a-z][A-Za-z0-9]*\Z")


def names_of(tree: ast.Module) -> Iterator[str]:
    """Of all classes, those in classes and functions too, and of the type aliases at the top level."""
    yield from (node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        targets += [node.target] if isinstance(node, ast.AnnAssign) else []
        names = [target.id for target in targets if isinstance(target, ast.Name)]
        yield from (name for name in names if _IS_CAPITALIZED.match(name) and not _is_type_variable(node))


def _is_type_variable(node: ast.stmt) -> bool:
    made = node.value if isinstance(node, ast.Assign) else None
    return isinstance(made, ast.Call) and isinstance(made.func, ast.Name) and made.func.id == "TypeVar"


def test_no_two_classes_or_types_have_one_name() -> None:
    found = defaultdict(list)
    for plane in PLANES:
        for file in sorted((PROJECT / plane).rglob("*.py")):
            if "vendor" not in file.parts:
                for name in names_of(ast.parse(file.read_text("utf-8"))):
                    found[name].append(str(file.relative_to(PROJECT)))
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
