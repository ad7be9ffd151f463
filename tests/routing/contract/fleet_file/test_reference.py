"""The page ``docs/fleet-file.md`` says what the code does."""

import re
from pathlib import Path

import pytest

from routing.contract.fleet_file import loads
from routing.contract.fleet_file.reference import SECTIONS, refreshed

PAGE_PATH = Path(__file__).parents[4] / "docs" / "fleet-file.md"
PAGE = PAGE_PATH.read_text("utf-8")
EXAMPLES = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


def test_every_table_is_on_the_page_once() -> None:
    tables = re.findall(r"<!-- table: ([a-z]+) -->", PAGE)
    assert sorted(tables) == sorted([*SECTIONS, "presets", "pages"])


def test_the_tables_are_what_rules_and_defaults_say() -> None:
    command = "python -m routing.contract.fleet_file.reference docs/fleet-file.md"
    assert refreshed(PAGE) == PAGE, f"the tables have drifted; run: {command}"


def test_a_table_that_drifts_is_noticed() -> None:
    drifted = PAGE.replace("| `connect_s` | number, 0.001 to 60 |", "| `connect_s` | number, 0.001 to 90 |")
    assert drifted != PAGE
    assert refreshed(drifted) == PAGE


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_every_example_on_the_page_is_a_valid_file(example: str) -> None:
    assert loads(example).fleets


def test_links_within_the_page_lead_somewhere() -> None:
    headings = {heading.lower() for heading in re.findall(r"^#+ (.+)$", PAGE, re.MULTILINE)}
    assert set(re.findall(r"\]\(#([^)]+)\)", PAGE)) <= headings
