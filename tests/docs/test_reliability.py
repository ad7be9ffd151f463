"""docs/reliability.md: every row that claims something names tests, and these exist."""

import ast
import re

import pytest

from tests.docs.blocks import PROJECT

PAGE = PROJECT / "docs" / "reliability.md"
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def rows() -> list[str]:
    """Of the tables whose last column says what shows it; the others hold figures."""
    found: list[str] = []
    claims = False
    for line in PAGE.read_text("utf-8").splitlines():
        if not line.startswith("|"):
            claims = False
        elif line.endswith("| shown by |"):
            claims = True
        elif claims and not line.startswith("| ---"):
            found.append(line)
    return found


def test_there_are_rows() -> None:
    assert len(rows()) > 50


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.split("|")[1].strip())
def test_a_row_names_tests_that_exist(row: str) -> None:
    named = TEST.findall(row)
    assert named, "no test is named"
    for file, name in named:
        path = PROJECT / file
        assert path.exists(), file
        found = {
            one.name
            for one in ast.walk(ast.parse(path.read_text("utf-8")))
            if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        assert name in found, f"{file} has no {name}"
