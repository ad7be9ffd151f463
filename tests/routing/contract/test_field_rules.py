"""Rules of lists: bounds that are said with the number that was sent, and items that come twice."""

from routing.contract.field_rules import INVALID, ListOf, Problems, Text

NAMES = ListOf(words="Names.", item=Text(words="Name."), plural="names", at_most=3, distinct=True)


def test_what_comes_twice_is_kept_once_and_in_order() -> None:
    problems: Problems = []
    assert NAMES.read(["b", "a", "b"], "/names", problems) == ["b", "a"]
    assert problems == []


def test_a_list_that_is_too_long_says_how_long_it_is() -> None:
    problems: Problems = []
    assert NAMES.read(["a"] * 4, "/names", problems) is INVALID
    assert [(one.pointer, one.message) for one in problems] == [("/names", "has 4 names: give it 3 at most")]
    assert NAMES.kind() == "list of up to 3 names"
