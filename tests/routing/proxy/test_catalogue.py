"""Which rows of the catalogue exist, and that each has its test: none can be dropped without a word.

Bytes stand in the case tables; what takes time, a slow socket or a process is a test of its own, which names
its rows by the mark ``row``.
"""

import re
from pathlib import Path

from tests.routing.proxy.test_request_cases import CASES as REQUESTS
from tests.routing.proxy.test_response_cases import CASES as RESPONSES

ROWS = {
    "A": "01 02 04 05 07 08 10 10b 11b 12 14 15 17 18 20 20b",
    "B": "01 02 03 03b 05 06 08 09 10 11 13 14 15 16 18 19",
    "C": "01 02 04 04b 05b 05c 05e 05f 06 07 09 10a 10c 10d 10f 10g 12a 12b 12d 12e 12g 12h 14 15 17 17b 19 "
    "19b 21 22 24 25 27",
    "D": "01 02 03 05 07 08 10 11 13 14",
    "E": "01 02 04 04b 06 06b 08 09 10 10b 11 12 14 14b 16 17 19 20 21 22 23b 23c 25 26 28 29",
    "F": "01 02 03 04 05 06 07 08 09 10 11 12 13 14 15 16 17 18",
    "R": "1 2 3 4 5",
}
"""Request lines, fields, framing, forwarding, responses, time and size, retries."""
_TESTS = Path(__file__).parents[2]
_MARK = re.compile(r'^@pytest\.mark\.row\(((?:"\w+"(?:, )?)+)\)$', re.MULTILINE)


def marked() -> set[str]:
    marks = (mark for path in _TESTS.rglob("test_*.py") for mark in _MARK.findall(path.read_text()))
    return {row for mark in marks for row in re.findall(r"\w+", mark)}


def tabled() -> list[str]:
    return [case.id for case in (*REQUESTS, *RESPONSES)]


def test_every_row_has_its_test() -> None:
    rows = {letter + number for letter, numbers in ROWS.items() for number in numbers.split()}
    assert rows - {case.split()[0] for case in tabled()} - marked() == set()


def test_marks_name_rows_that_exist() -> None:
    assert {row for row in marked() if row[1:] not in ROWS[row[0]].split()} == set()


def test_no_two_cases_have_one_id() -> None:
    numbers = [case.split()[0] for case in tabled()]
    assert sorted(set(numbers)) == sorted(numbers)
