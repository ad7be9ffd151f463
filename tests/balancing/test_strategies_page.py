"""The page ``docs/strategies.md`` says what the code does."""

from pathlib import Path

from routing import strategies
from routing.strategies.reference import refreshed

PAGE = (Path(__file__).parents[2] / "docs" / "strategies.md").read_text("utf-8")


def test_the_table_is_what_strategies_say_of_themselves():
    command = "python -m routing.strategies.reference docs/strategies.md"
    assert refreshed(PAGE) == PAGE, f"the table has drifted; run: {command}"


def test_a_table_that_drifts_is_noticed():
    drifted = PAGE.replace("0.1 to 3600", "0.1 to 36")
    assert drifted != PAGE
    assert refreshed(drifted) == PAGE


def test_every_strategy_has_its_rule_and_its_weakness():
    rules = PAGE.split("| strategy | rule | weak where |")[1]
    assert [line.split("`")[1] for line in rules.splitlines() if line.startswith("| `")] == strategies.names()
