"""Which tests ``make test`` runs with arguments."""

import pytest

from bootstrap.checks import names_tests


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ([], False),
        (["-x"], False),
        (["-k", "wait_for_a_slot", "--lf"], False),
        (["tests/bootstrap"], True),
        (["-x", "tests/bootstrap/test_checks.py::test_options_alone_leave_the_long_ones_out"], True),
    ],
)
def test_options_alone_leave_the_long_ones_out(arguments: list[str], names: bool) -> None:
    assert names_tests(arguments) is names
