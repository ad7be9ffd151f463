"""What a list of fallbacks may name; what it must not leads to words with a cure."""

import pytest

from routing.contract.defaults import with_defaults
from routing.contract.fallbacks import FleetLinks, fallback_problems, names_of
from routing.contract.policy import Policy
from routing.contract.policy_rules import check_policy

LINKS = {
    "a": FleetLinks("openai"),
    "b": FleetLinks("openai", ("c",)),
    "c": FleetLinks("openai", ("d",)),
    "d": FleetLinks("openai", ("a",)),
    "e": FleetLinks("openai"),
    "v2": FleetLinks("open-inference"),
}


def problems(*names: str, may_see: str = "abcdev2") -> list[tuple[str, str]]:
    entries = [{"fleet": name} for name in names]
    links = {**LINKS, "a": FleetLinks("openai", names)}
    found = fallback_problems("a", entries, links, "/policy/fallback", lambda name: name in may_see)
    return [(problem.pointer, problem.message) for problem in found]


def test_what_may_be_named() -> None:
    assert problems("e") == []
    assert problems() == []


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("a",), "fleet a cannot be its own fallback: name another fleet"),
        (
            ("v2",),
            "fleet v2 has the protocol open-inference, and requests of fleet a are of openai: name a fleet "
            "of that protocol",
        ),
        (("d",), "leads back to fleet a (a → d → a): remove one of these fallbacks"),
        (("b",), "leads back to fleet a (a → b → c → d → a): remove one of these fallbacks"),
        (("ee",), 'unknown fleet "ee"; did you mean "e"?'),
        (
            ("nothing-like-it",),
            'unknown fleet "nothing-like-it"; there are: b, c, d, e, v2; add it first, or remove it from '
            "the list",
        ),
    ],
)
def test_what_may_not(names: tuple[str, ...], words: str) -> None:
    assert problems(*names) == [("/policy/fallback/0/fleet", words)]


def test_one_that_is_named_twice() -> None:
    words = "fleet e is listed twice: remove one, and give the other the causes of both"
    assert problems("e", "e") == [("/policy/fallback/1/fleet", words)]


def test_no_fleet_is_named_that_may_not_be_seen() -> None:
    ((_, words),) = problems("e", may_see="abc")
    assert words == 'unknown fleet "e"; there are: b, c; add it first, or remove it from the list'
    ((_, words),) = problems("b", may_see="ab")
    assert words == "leads back to fleet a (a → b → … → … → a): remove one of these fallbacks"


def test_values_of_wrong_types_are_others_business() -> None:
    assert names_of([{"fleet": "x"}, {"fleet": 8}, "y", {}]) == ["x"]
    assert names_of("x") == names_of(None) == []


def test_the_defaults() -> None:
    kept, found = check_policy({"fallback": [{"fleet": "e"}]})
    assert found == []
    policy = with_defaults(kept, Policy)
    (entry,) = policy.fallback
    assert entry.causes == ["no_eligible_replica", "no_place", "replicas_failed", "first_token"]
    assert not entry.included
    assert policy.fallback_budget_percent == 100.0
    assert Policy().fallback == []


@pytest.mark.parametrize(
    ("entry", "pointer", "words"),
    [
        ({}, "/fallback/0", 'a fallback needs "fleet"'),
        ({"fleet": "No"}, "/fallback/0/fleet", '"No" is not a valid name'),
        ({"fleet": "e", "causes": []}, "/fallback/0/causes", "needs at least 1 of the causes"),
        ({"fleet": "e", "causes": ["first_tokens"]}, "/fallback/0/causes/0", 'did you mean "first_token"?'),
        ({"fleet": "e", "included": "yes"}, "/fallback/0/included", "must be true or false"),
        ({"fleet": "e", "cause": []}, "/fallback/0/cause", 'did you mean "causes"?'),
    ],
)
def test_the_fields_of_one(entry: dict[str, object], pointer: str, words: str) -> None:
    _, found = check_policy({"fallback": [entry]})
    assert [problem.pointer for problem in found] == [pointer]
    assert words in found[0].message
