"""docs/security.md says what is so: its table is the access matrix, and the tests that it names are there."""

import ast
import re

import pytest

from tests.docs.blocks import PROJECT
from tests.docs.test_architecture import LINK
from tests.security import access_table

PAGE = PROJECT / "docs" / "security.md"
TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


def text() -> str:
    return PAGE.read_text("utf-8")


def test_its_table_is_the_access_matrix() -> None:
    cure = "python -m tests.security.access_table docs/security.md"
    found = text().partition(access_table.BEGIN)[2].partition(access_table.END)[0]
    assert found == access_table.table(), cure


def test_the_tests_that_it_names_are_there() -> None:
    named = TEST.findall(text())
    assert len(named) > 15
    for file, name in named:
        tree = ast.parse((PROJECT / file).read_text("utf-8"))
        functions = (ast.FunctionDef, ast.AsyncFunctionDef)
        tests = {node.name for node in tree.body if isinstance(node, functions)}
        assert not name or name in tests, f"{file}::{name}"


def test_every_test_of_this_folder_is_named() -> None:
    """One that shows nothing which the page claims, or a claim that was forgotten."""
    named = {file for file, _ in TEST.findall(text())}
    here = {f"tests/security/{path.name}" for path in (PROJECT / "tests" / "security").glob("test_*.py")}
    assert here - named == {"tests/security/test_page.py"}


@pytest.mark.parametrize("page", ["README.md", "SECURITY.md", "docs/production.md"])
def test_it_is_found_from(page: str) -> None:
    targets = [target.rpartition("/")[2] for target, _ in LINK.findall((PROJECT / page).read_text("utf-8"))]
    assert "security.md" in targets
