"""Fleet files that the pages show are valid."""

import re

import pytest

from routing.contract.fleet_file import loads
from tests.docs.blocks import PROJECT, fenced, pages

FLEETS = re.compile(r"^fleets:", re.MULTILINE)
FILES = [
    pytest.param(text, id=str(page.relative_to(PROJECT)))
    for page in pages()
    for language, text in fenced(page)
    if language == "yaml" and FLEETS.search(text)
]


def test_there_are_some_on_several_pages() -> None:
    assert len({one.id for one in FILES}) > 5


@pytest.mark.parametrize("text", FILES)
def test_a_shown_fleet_file_is_valid(text: str) -> None:
    assert loads(text).fleets
