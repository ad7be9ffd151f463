"""The page ``docs/strategies.md`` says what the code does."""

from pathlib import Path

from routing.balancing import strategies
from routing.balancing.strategies.reference import refreshed

EXAMPLE = Path(__file__).parents[4] / "examples" / "strategy"
PAGE = (Path(__file__).parents[4] / "docs" / "strategies.md").read_text("utf-8")


def test_the_table_is_what_strategies_say_of_themselves():
    command = "python -m routing.balancing.strategies.reference docs/strategies.md"
    assert refreshed(PAGE) == PAGE, f"the table has drifted; run: {command}"


def test_a_table_that_drifts_is_noticed():
    drifted = PAGE.replace("0.1 to 3600", "0.1 to 36")
    assert drifted != PAGE
    assert refreshed(drifted) == PAGE


def test_every_strategy_has_its_rule_and_its_weakness():
    rules = PAGE.split("| strategy | rule | weak where |\n| --- | --- | --- |\n")[1].split("\n\n")[0]
    assert [line.split("`")[1] for line in rules.splitlines() if line.startswith("| `")] == strategies.names()


def test_the_example_is_shown_as_it_is():
    assert f"```python\n{(EXAMPLE / 'least_outstanding_work.py').read_text('utf-8')}```\n" in PAGE
    assert (EXAMPLE / "pyproject.toml").read_text("utf-8").split("\n\n")[2] in PAGE
