"""What a person reads when a fleet file is no valid YAML, or is too large or too deep."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.contract.fleet_file import FileProblem, FleetFileError, load, loads
from tests.routing.contract.fleet_file.problems.rules import FLEET, problems_of

CASES = {
    "a field written twice": (
        FLEET + "    protocol: openai\n",
        ['4:5 fleets[0]: "protocol" is written twice, first on line 3'],
    ),
    "a merge key": (
        "fleets:\n  - &a {name: a, protocol: openai}\n  - {<<: *a, name: b, protocol: openai}\n",
        ["3:6 fleets[1]: merge keys (<<) are not supported: write the fields out, or alias a whole value"],
    ),
    "a tag": (
        "fleets: !!python/tuple []\n",
        ["1:9 fleets: the tag !!python/tuple is not supported: remove it"],
    ),
    "an alias into itself": (
        "fleets: &a\n  - *a\n",
        ["1:9 fleets[0]: an alias leads back into itself: write the value out"],
    ),
    "a group as a field's name": (
        "fleets: []\n? {a: b}\n: c\n",
        ["2:3 : a field's name must be a word, not a list or group"],
    ),
    "tabs": (
        "fleets:\n\t- name: a\n",
        [
            "2:1 : not valid YAML, while scanning for the next token found character '\\t' that cannot start "
            "any token: indent with spaces, not tabs; quote a value that begins with @, ` or %"
        ],
    ),
    "lines that are not alike": (
        "fleets:\n  - name: a\n     protocol: openai\n",
        [
            "3:14 : not valid YAML, mapping values are not allowed here: is a line indented wrongly, or does "
            'a value hold ": " without quotes?'
        ],
    ),
    "a bracket left open": (
        "fleets: [\n",
        [
            "2:1 : not valid YAML, while parsing a flow node expected the node content, but found "
            "'<stream end>': is a bracket, brace or quote not closed?"
        ],
    ),
    "a quote left open": (
        "fleets: []\nversion: 'one\n",
        [
            "3:1 : not valid YAML, while scanning a quoted scalar found unexpected end of stream: is a "
            "closing quote missing?"
        ],
    ),
    "two documents": (
        "fleets: []\n---\nfleets: []\n",
        [
            "2:1 : not valid YAML, expected a single document in the stream but found another document: "
            "write one document, without a second ---"
        ],
    ),
    "an alias of nothing": (
        "fleets: *none\n",
        ["1:9 : not valid YAML, found undefined alias 'none': define it with & before it is used with *"],
    ),
    "a control character": (
        "fleets: []\nversion: \x07\n",
        ["2:10 : the character U+0007 is not allowed: remove it"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_each_mistake_is_named_with_its_place_and_cure(case: str) -> None:
    text, expected = CASES[case]
    assert problems_of(text) == expected


def test_aliases_cannot_make_a_small_file_large() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    (problem,) = problems_of("\n".join(lines))
    assert problem.endswith("aliases expand to more than 100000 values: write fewer of them")


@pytest.mark.parametrize("deep", ["[" * 100_000, "{a: " * 5_000, "- " * 5_000])
def test_nesting_is_limited(deep: str) -> None:
    (problem,) = problems_of(deep)
    assert "values are nested more than 32 deep: is a bracket not closed?" in problem


def test_aliases_cannot_nest_deeper_than_what_is_written_out() -> None:
    lines = ["a0: &a0 " + "[" * 30 + "]" * 30]
    lines += [f"a{i}: &a{i} " + "[" * 30 + f"*a{i - 1}" + "]" * 30 for i in range(1, 100)]
    (problem,) = problems_of("\n".join(lines))
    assert problem.endswith("values are nested more than 32 deep: is a bracket not closed?")


def test_a_file_too_large_to_mean_it_is_refused() -> None:
    (problem,) = problems_of("#" * (8 * 1024 * 1024 + 1))
    assert problem == "1:1 : the file is 8388609 characters long; at most 8388608 are read"


def test_a_file_that_is_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "fleets.yaml"
    path.write_bytes(b"version: 1\nfleets: [\xff]\n")
    with pytest.raises(FleetFileError) as caught:
        load(path)
    assert str(caught.value) == f"{path}: line 2, column 10: not UTF-8: save it as UTF-8"


@given(st.text(max_size=200) | st.text(alphabet="flets: []{}-&*!|>'\"\n\t#<a1.,?%@", max_size=80))
def test_no_text_does_anything_but_load_or_be_refused_with_a_place(text: str) -> None:
    problems: list[FileProblem] = []
    try:
        loads(text)
    except FleetFileError as error:
        problems = error.problems
    assert all(problem.line >= 1 and problem.column >= 1 and problem.message for problem in problems)
