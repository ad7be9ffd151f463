"""``docs/answers.md`` says what the table of faults says."""

from tests.docs.blocks import PROJECT
from tests.routing.proxy.answers.faults import FAULTS, FLAPPING
from tests.routing.proxy.answers.page import refreshed

PAGE = (PROJECT / "docs" / "answers.md").read_text("utf-8")


def test_the_tables_are_those_of_the_tests() -> None:
    command = "python -m tests.routing.proxy.answers.page docs/answers.md"
    assert refreshed(PAGE) == PAGE, f"the tables have drifted; run: {command}"


def test_every_fault_is_on_the_page() -> None:
    for fault in (*FAULTS, FLAPPING):
        assert f"| {fault.words} |" in PAGE


def test_a_table_that_drifts_is_noticed() -> None:
    drifted = PAGE.replace("| 429 without it | ", "| 429 without it | never | ")
    assert drifted != PAGE
    assert refreshed(drifted) == PAGE
