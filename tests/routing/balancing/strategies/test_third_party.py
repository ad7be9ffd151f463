"""Strategies of other packages: found, refused in words, and guarded on the request path."""

import logging
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from routing.balancing import strategies
from routing.balancing.balancer import Balancer
from routing.balancing.strategies import registry, third_party
from routing.contract.policy_rules import StrategyRules, check_policy
from tests.packages import install, install_example

GOOD = """
import msgspec
from random import Random

class Parameters(msgspec.Struct, frozen=True):
    PARAMETERS

class First:
    name = "first"
    sentence = "Picks the first."
    weighs_waiting = False
    Parameters = Parameters
    memory = None
    affinity = None

    def __init__(self, parameters):
        self.parameters = parameters

    def pick(self, candidates, work, now, rng):
        return candidates[0]
"""
PLAIN = GOOD.replace("PARAMETERS", "pass")
DERIVED = """
from routing.balancing.strategies.expected_work_parameters import LeastExpectedWorkParameters
from routing.balancing.strategies.least_expected_work import LeastExpectedWork

class First(LeastExpectedWork):
    name = "first"
"""
HOLDS_ONE = (
    DERIVED.replace("(LeastExpectedWork)", "")
    + """
    sentence = "As the default."
    weighs_waiting = LeastExpectedWork.weighs_waiting
    Parameters = LeastExpectedWorkParameters
    memory = None
    affinity = None

    def __init__(self, parameters):
        self.default = LeastExpectedWork(parameters)

    def pick(self, candidates, work, now, rng):
        return self.default.pick(candidates, work, now, rng)
"""
)


@pytest.fixture
def bring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """``bring(text)``: a package is installed that brings strategy ``first``; its module is new each time."""
    monkeypatch.syspath_prepend(tmp_path)
    made: list[str] = []

    def one(text: str, entry: str = "first", package: str = "acme-first", what: str = "First") -> None:
        module = f"acme_{len(made)}_first"
        made.append(module)
        install(tmp_path, package, {entry: f"{module}:{what}"}, {module: text})
        third_party.discover.cache_clear()

    yield one
    third_party.discover.cache_clear()
    for module in made:
        sys.modules.pop(module, None)


def why_not() -> str:
    with pytest.raises(ValueError, match="first") as refused:
        strategies.build("first", {})
    return str(refused.value)


def test_the_example_is_one_strategy_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    install_example(tmp_path)
    third_party.discover.cache_clear()
    try:
        assert strategies.names() == [*registry.own_names(), "least_outstanding_work"]
        about = strategies.describe("least_outstanding_work")
        (request_work,) = about.parameters
        assert (request_work.type, request_work.default, request_work.minimum) == ("number", 0.0, 0.0)
        balancer = Balancer(["http://10.0.0.1", "http://10.0.0.2"], strategy="least_outstanding_work")
        with balancer.pick(work=100.0) as long:
            for _ in range(5):
                with balancer.pick(work=1.0) as short:
                    assert short is not long
    finally:
        third_party.discover.cache_clear()
        sys.modules.pop("least_outstanding_work", None)


def test_own_strategies_are_built_without_looking_for_packages() -> None:
    third_party.discover.cache_clear()
    strategies.build("round_robin", {})
    strategies.describe("least_expected_work")
    assert third_party.discover.cache_info().currsize == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import not_there_at_all", "ModuleNotFoundError: No module named 'not_there_at_all'"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("Last = 1", "has no attribute 'First'"),
        ("First = 'a string'", "what its entry point names is no class but 'a string'"),
        (PLAIN.replace('name = "first"', 'name = "second"'), "the entry point's name: name = 'first'"),
        (PLAIN.replace("sentence =", "words ="), "its class must have sentence, of type str"),
        (PLAIN.replace("weighs_waiting = False", ""), "its class must have weighs_waiting, of type bool"),
        (PLAIN.replace("Parameters = Parameters", "Parameters = dict"), "derived from msgspec.Struct"),
        (PLAIN.replace("memory = None", ""), "its memory must be None or an AnswerMemory, not 0"),
        (PLAIN.replace("affinity = None", "affinity = 'user'"), "must be None or an Affinity, not 'user'"),
        (PLAIN.replace("candidates[0]", "None"), "something else than one of the candidates"),
        (
            PLAIN.replace("candidates[0]", "candidates.pop()"),
            "AttributeError: 'tuple' object has no attribute",
        ),
        (PLAIN.replace("candidates[0]", "1 / 0"), "ZeroDivisionError: division by zero"),
        (DERIVED, "its class derives from LeastExpectedWork, which workers run compiled: have it hold one"),
        (
            GOOD.replace("PARAMETERS", "sizes: list[int] = []"),
            "'sizes' is none of float, int, bool",
        ),
        (GOOD.replace("PARAMETERS", "size: int | None = 1"), "parameter 'size' is none of float, int, bool"),
        (GOOD.replace("PARAMETERS", "size: int"), "parameter 'size' has no default"),
        (
            "from typing import Annotated\n"
            + GOOD.replace("PARAMETERS", "size: Annotated[int, msgspec.Meta(gt=0)] = 1"),
            "parameter 'size' has a bound other than ge and le",
        ),
        (
            "from typing import Annotated\n"
            + GOOD.replace("PARAMETERS", "size: Annotated[int, msgspec.Meta(ge=5)] = 1"),
            "parameter 'size' of first must be at least 5, not 1",
        ),
    ],
)
def test_what_cannot_be_used_says_why(
    bring: Callable[..., None], caplog: pytest.LogCaptureFixture, text: str, words: str
) -> None:
    bring(text)
    with caplog.at_level(logging.ERROR):
        assert "first" not in strategies.names()
        assert words in why_not()
        assert "package acme-first 1.0 brings it" in why_not()
    assert len(caplog.records) == 1
    rules = StrategyRules(strategies.names(), strategies.build, strategies.why_not)
    _, (problem,) = check_policy({"strategy": "first"}, rules)
    assert problem.pointer == "/strategy"
    assert words in problem.message


def test_one_that_holds_the_default_is_used(bring: Callable[..., None]) -> None:
    bring(HOLDS_ONE)
    balancer = Balancer(["http://10.0.0.1", "http://10.0.0.2"], strategy="first")
    with balancer.pick(work=100.0) as busy, balancer.pick() as other:
        assert busy is not other


def test_the_projects_own_name_stays_its_own(bring: Callable[..., None]) -> None:
    bring(PLAIN.replace('"first"', '"round_robin"'), entry="round_robin")
    assert strategies.names() == registry.own_names()
    assert "taken by one of Switchyard's own" in strategies.why_not("round_robin")
    assert type(strategies.build("round_robin", {})).__name__ == "RoundRobin"


def test_of_two_packages_with_the_same_name_neither_is_used(bring: Callable[..., None]) -> None:
    bring(PLAIN)
    bring(PLAIN, package="other-first")
    assert "another package brings one of the same name" in why_not()


def test_one_that_is_nowhere_says_what_to_do() -> None:
    with pytest.raises(ValueError, match="or install the package that brings it here, too, and restart"):
        strategies.build("nobodys", {})


def test_parameters_that_it_refuses_are_a_message(bring: Callable[..., None]) -> None:
    refusing = GOOD.replace("PARAMETERS", "size: int = 1").replace(
        "self.parameters = parameters", "{1: 1}[parameters.size]"
    )
    bring(refusing)
    strategies.build("first", {"size": 1})
    with pytest.raises(ValueError, match="first refuses its parameters: KeyError: 2"):
        strategies.build("first", {"size": 2})


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("raise KeyError('r9')", "KeyError: 'r9'"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("return self", "which is none of the candidates"),
        ("candidates.clear()", "AttributeError: 'tuple' object has no attribute 'clear'"),
        ("return candidates.pop()", "AttributeError: 'tuple' object has no attribute 'pop'"),
    ],
)
def test_a_pick_that_fails_costs_no_request_and_is_told(
    bring: Callable[..., None], make_pool, send, caplog: pytest.LogCaptureFixture, wrong: str, words: str
) -> None:
    """From its 101st pick on. It is tried once a second, and logged once a minute."""
    failing = PLAIN.replace("self.parameters = parameters", "self.picks = 0").replace(
        "return candidates[0]",
        f"self.picks += 1\n        if self.picks > 100: {wrong}\n        return candidates[0]",
    )
    bring(failing)
    pool = make_pool(3, strategy="first")
    assert Counter(send(pool, 1.0) for _ in range(90)) == {"r0": 90}
    assert pool.report(1.0).strategy_trouble == ""
    with caplog.at_level(logging.ERROR):
        picks = Counter(send(pool, 2.0 + i * 0.01) for i in range(4000))
    assert picks.total() == 4000
    assert set(picks) == {"r0", "r1", "r2"}
    trouble = pool.report(42.0).strategy_trouble
    assert words in trouble
    assert trouble.startswith("strategy first failed 40 times, last with ")
    assert trouble.endswith("; least_expected_work picks instead")
    assert len(caplog.records) == 1
    assert caplog.records[0].exc_info
    assert pool.report(120.0).strategy_trouble == ""


def test_one_that_recovers_is_used_again(bring: Callable[..., None], make_pool, send) -> None:
    bring(PLAIN.replace("return candidates[0]", "return candidates[0 if now > 5 or now == 1 else 7]"))
    pool = make_pool(3, strategy="first")
    assert {send(pool, 2.0 + i * 0.01) for i in range(200)} == {"r0", "r1", "r2"}
    assert {send(pool, 7.0 + i * 0.01) for i in range(200)} == {"r0"}


def test_a_replica_that_is_no_candidate_gets_nothing(
    bring: Callable[..., None], make_pool, make_snapshot, send
) -> None:
    """It keeps to the first one that it has seen, which an operator drains then."""
    bring(
        PLAIN.replace("self.parameters = parameters", "self.kept = None").replace(
            "return candidates[0]", "self.kept = self.kept or candidates[0]\n        return self.kept"
        )
    )
    pool = make_pool(3, strategy="first")
    assert {send(pool, 1.0) for _ in range(20)} == {"r0"}
    pool.replace(make_snapshot([{"admin_state": "draining"}, {}, {}], version=2, strategy="first"))
    assert {send(pool, 2.0 + i * 0.1) for i in range(60)} == {"r1", "r2"}
    assert "which is none of the candidates" in pool.report(8.0).strategy_trouble


def test_one_that_goes_by_keys_cannot_change_the_pools_list(
    bring: Callable[..., None], make_pool, send
) -> None:
    keyed = PLAIN.replace("affinity = None", "affinity = Affinity(header='x-key')\n    home = None")
    near = """
    def pick_near(self, candidates, work, now, rng, key):
        candidates.clear()

    def remember(self, replica, key):
        raise SystemExit(3)
"""
    bring("from routing.balancing.affinity import Affinity\n" + keyed + near)
    pool = make_pool(3, strategy="first")
    found = [pool.begin(1.0, 1.0, key=(number,)) for number in range(9)]
    assert {attempt.replica.name for attempt in found} == {"r0", "r1", "r2"}
    assert "SystemExit: 3" in pool.report(1.0).strategy_trouble


def test_a_worker_can_be_interrupted_in_a_pick(bring: Callable[..., None], make_pool) -> None:
    raising = PLAIN.replace(
        "return candidates[0]", "if now > 1: raise KeyboardInterrupt\n        return candidates[0]"
    )
    bring(raising)
    pool = make_pool(3, strategy="first")
    with pytest.raises(KeyboardInterrupt):
        pool.begin(1.0, 2.0)
