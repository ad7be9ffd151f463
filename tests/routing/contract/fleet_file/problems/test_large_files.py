"""A large fleet file: a valid one is read, of an invalid one no more is looked at than is reported."""

import pytest

from routing.contract.fleet_file import ExistingState, FleetFileError, loads
from tests.call_counts import calls
from tests.routing.contract.fleet_file.problems.rules import FLEET, problems_of

REPLICA = "      - {{name: r{}, url: 'http://10.0.0.1:{}'{}}}\n"
MANY = 5000
MOST = 200


def replicas(count: int, more: str = "") -> str:
    return FLEET + "    replicas:\n" + "".join(REPLICA.format(i, i % 60_000 + 1, more) for i in range(count))


def test_the_largest_table_is_read() -> None:
    more = ", hardware: h, weight: 2.0, max_concurrency: 8, site: east, memory_bytes: 1, accelerators: [d]"
    text = "hardware: [{name: h}]\naccelerators: [{name: d, memory_bytes: 1000000}]\n" + replicas(
        20_000, more
    )
    assert len(loads(text).fleets[0].replicas) == 20_000


def test_problems_are_looked_for_up_to_a_limit() -> None:
    with pytest.raises(FleetFileError) as caught:
        loads(replicas(MANY, ", wieght: 1"), "f")
    assert len(caught.value.problems) == MOST
    assert str(caught.value).endswith("f: and at least 170 more problems")


@pytest.mark.parametrize(
    "text",
    [
        "fleets: []\n" + "".join(f"unknown{i}: 1\n" for i in range(MANY)),
        "fleets: []\n" + "a: 1\n" * MANY,
        "fleets: []\n" + "".join(f"a{i}: !!x y\n" for i in range(MANY)),
        replicas(MANY, ", hardware: nothing"),
        replicas(MANY, ", accelerators: [nothing]"),
        FLEET + "    aliases: [" + "a, " * MANY + "]\n",
        FLEET + "    match: [" + "{host: a.test}, " * MANY + "]\n",
        FLEET + "    policy:\n      parameters: {" + "".join(f"p{i}: 1, " for i in range(MANY)) + "}\n",
        FLEET + "    policy:\n      parameters: {" + "".join(f"p{i}: [], " for i in range(MANY)) + "}\n",
    ],
)
def test_of_every_kind(text: str) -> None:
    assert len(problems_of(text)) == MOST


def calls_of(text: str) -> int:
    """To refuse it."""
    return calls(lambda: problems_of(text))


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(lambda n: "".join(f"unknown{i}: 1\n" for i in range(n)), id="unknown fields"),
        pytest.param(lambda n: replicas(n, ", wieght: 1"), id="misspelt fields"),
        pytest.param(
            lambda n: (
                "hardware:\n"
                + "".join(f"  - {{name: h{i}}}\n" for i in range(n))
                + replicas(n, ", hardware: nothing")
            ),
            id="unknown names among many",
        ),
        pytest.param(lambda n: replicas(n) + "        x: [\n", id="a syntax error"),
    ],
)
def test_the_work_grows_no_faster_than_the_file(lines) -> None:  # type: ignore[no-untyped-def]
    assert calls_of(lines(4000)) < 3 * calls_of(lines(2000))


def test_a_syntax_error_far_down_is_explained_by_the_fast_parser() -> None:
    (problem,) = problems_of(replicas(MANY) + "      - {name: x, url: [\n")
    assert problem == (
        "5006:1 : not valid YAML, while parsing a flow node did not find expected node content: "
        "is a bracket, brace or quote not closed?"
    )
    (problem,) = problems_of(replicas(MANY) + "      - {name: \x07}\n")
    assert problem == "5005:16 : the character U+0007 is not allowed: remove it"


def test_values_are_limited() -> None:
    (problem,) = problems_of("fleets: [" + "1," * 1_000_001 + "]")
    assert problem.endswith("the file has more than 1000000 values, the most that are read: divide it")


def test_a_long_text_is_not_repeated_in_each_message() -> None:
    long = "x" * 100_000
    text = f"hardware: [&x {{name: {long}}}]\n" + replicas(0)
    text += "".join(REPLICA.format(i, 1, f", hardware: {long}, site: {long}") for i in range(20))
    assert sum(map(len, problems_of(text))) < 50_000
    (problem,) = problems_of(f"fleets: []\n? {long}\n: 1\n")
    assert problem == "2:3 : a field's name has at most 1024 characters"


def test_many_known_names_are_not_listed_all() -> None:
    known = ExistingState(hardware={f"h{i:05}" for i in range(20_000)})
    with pytest.raises(FleetFileError) as caught:
        loads(replicas(1, ", hardware: nothing"), "f", existing=known)
    (problem,) = caught.value.problems
    assert problem.message.endswith("h00018, h00019 and 19980 more; add it to the hardware list")
