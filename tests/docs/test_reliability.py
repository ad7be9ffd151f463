"""docs/reliability.md: every row names tests, and these exist."""

import ast
import re

import pytest

from tests.docs.blocks import PROJECT

PAGE = PROJECT / "docs" / "reliability.md"
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def rows() -> list[str]:
    lines = PAGE.read_text("utf-8").splitlines()
    heads = [number for number, line in enumerate(lines) if line.startswith("| ---")]
    skipped = {*heads, *(number - 1 for number in heads)}
    return [line for number, line in enumerate(lines) if line.startswith("|") and number not in skipped]


def test_there_are_rows() -> None:
    assert len(rows()) > 10


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
