"""The checks that the REST API shares with the fleet file."""

import msgspec
import pytest

from routing.contract.defaults import with_defaults
from routing.contract.field_rules import FieldProblem, Section
from routing.contract.fleet_file.replica_rules import REPLICA
from routing.contract.fleet_file.rules import (
    ACCELERATOR,
    CLIENT_KEY,
    FILE,
    FLEET,
    HARDWARE,
    check_hardware,
    check_replica,
)
from routing.contract.fleet_file.structs import (
    ClientKeyEntry,
    FleetEntry,
    FleetFile,
    HardwareEntry,
    ReplicaEntry,
)
from routing.contract.policy import Ejection, Limits, Policy, Queue, Retries, Slo, Timeouts
from routing.contract.policy_rules import (
    EJECTION,
    LIMITS,
    POLICY,
    QUEUE,
    RETRIES,
    SLO,
    TIMEOUTS,
    StrategyRules,
    check_policy,
)
from routing.contract.probe import Probe
from routing.contract.probe_rules import PROBE, check_probe
from routing.contract.table import AcceleratorSpec


def test_what_was_set_is_kept_and_nothing_else() -> None:
    settings, problems = check_policy({"slow_start_s": 5, "timeouts": {"idle_s": 9}, "max_concurrency": None})
    assert problems == []
    assert settings == {"slow_start_s": 5.0, "timeouts": {"idle_s": 9.0}, "max_concurrency": None}
    assert with_defaults(settings, Policy) == Policy(slow_start_s=5.0, timeouts=Timeouts(idle_s=9.0))


def test_problems_are_json_pointers_and_the_valid_rest_is_kept() -> None:
    settings, problems = check_policy({"slow_start_s": 5, "timeouts": {"idle_s": -1, "a/b~c": 1}, "slos": {}})
    assert settings == {"slow_start_s": 5.0, "timeouts": {}}
    assert [problem.pointer for problem in problems] == ["/timeouts/idle_s", "/timeouts/a~1b~0c", "/slos"]
    assert problems[0] == FieldProblem("/timeouts/idle_s", "must be from 0.001 to 86400 seconds, not -1")


def test_a_queue_may_be_empty_and_says_what_it_may_be() -> None:
    kept, problems = check_policy({"queue": {"size": 0, "timeout_s": 2, "cold": "hold"}})
    assert (kept, problems) == ({"queue": {"size": 0, "timeout_s": 2.0, "cold": "hold"}}, [])
    assert with_defaults(kept, Policy).queue == Queue(size=0, timeout_s=2.0, cold="hold")
    wrong = {"size": -1, "timeout_s": 0, "cold": "holds", "cold_timeout": 1}
    assert check_policy({"queue": wrong})[1] == [
        FieldProblem("/queue/size", "must be from 0 to 1000000, not -1"),
        FieldProblem("/queue/timeout_s", "must be from 0.001 to 86400 seconds, not 0"),
        FieldProblem(
            "/queue/cold", 'must be one of refuse, hold, not the text "holds"; did you mean "hold"?'
        ),
        FieldProblem(
            "/queue/cold_timeout",
            'unknown field "cold_timeout"; did you mean "cold_timeout_s"?',
            at_key=True,
        ),
    ]


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (404, "must be 429 or 500 to 599, not 404: remove it, other responses go to the client"),
        (430, "must be 429 or 500 to 599, not 430: remove it, other responses go to the client"),
        (600, "must be 429 or 500 to 599, not 600: remove it, other responses go to the client"),
        ("503", 'must be a whole number, not the text "503": remove the quotes'),
        (503.5, "must be a whole number, not 503.5"),
        (True, "must be a whole number, not true"),
    ],
)
def test_only_answers_that_are_the_replicas_fault_can_be_retried(status: object, words: str) -> None:
    kept, problems = check_policy({"retries": {"statuses": [429, status, 500, 599]}})
    assert problems == [FieldProblem("/retries/statuses/1", words)]
    assert kept == {"retries": {"statuses": [429, 500, 599]}}


def test_a_strategy_is_checked_where_the_strategies_are_known() -> None:
    rules = StrategyRules(names=["round_robin"], build=lambda name, parameters: None)
    assert check_policy({"strategy": "round_robin"}, rules)[1] == []
    assert check_policy({"strategy": "random"})[1] == []
    assert check_policy({"strategy": "rond_robin"}, rules)[1] == [
        FieldProblem("/strategy", 'unknown strategy "rond_robin"; did you mean "round_robin"?')
    ]


def test_parameters_that_do_not_go_together_are_reported_as_a_whole() -> None:
    def build(name: str, parameters: object) -> None:
        if isinstance(parameters, dict) and len(parameters) > 1:
            raise ValueError("low must be below high")

    rules = StrategyRules(names=["band"], build=build)
    assert check_policy({"strategy": "band", "parameters": {"low": 2, "high": 1}}, rules)[1] == [
        FieldProblem("/parameters", "low must be below high")
    ]


def test_a_probe_may_be_left_to_the_protocol_but_not_half_described() -> None:
    assert check_probe({"period_s": 5}) == ({"period_s": 5.0}, [])
    assert check_probe({"accepted_statuses": [204]})[1] == [
        FieldProblem("", 'the probe preset http needs "path": add it, for example path: /healthz')
    ]
    assert check_probe({"path": "/a b"})[1] == [
        FieldProblem(
            "/path", "must be at most 500 ASCII characters without spaces or #: percent-encode others"
        )
    ]
    assert check_probe({"path": "health"})[1] == [
        FieldProblem("/path", '"health" is not a path: begin it with a slash')
    ]


def test_a_change_needs_no_required_fields() -> None:
    assert check_replica({"weight": 2}, partial=True) == ({"weight": 2.0}, [])
    assert [problem.message for problem in check_replica({"weight": 2})[1]] == [
        'a replica needs "name": add it, for example name: a',
        'a replica needs "url": add it, for example url: "http://10.0.0.1:8000"',
    ]


def test_numbers_too_large_for_a_float_are_refused_in_few_words() -> None:
    _, problems = check_hardware({"name": "a", "weight": 10**400})
    assert problems == [FieldProblem("/weight", "must be from 0 to 1000, not 10000000000000000000000…")]


PAIRS: list[tuple[Section, type[msgspec.Struct]]] = [
    (TIMEOUTS, Timeouts),
    (LIMITS, Limits),
    (RETRIES, Retries),
    (EJECTION, Ejection),
    (QUEUE, Queue),
    (SLO, Slo),
    (POLICY, Policy),
    (PROBE, Probe),
    (HARDWARE, HardwareEntry),
    (ACCELERATOR, AcceleratorSpec),
    (REPLICA, ReplicaEntry),
    (FLEET, FleetEntry),
    (CLIENT_KEY, ClientKeyEntry),
    (FILE, FleetFile),
]


@pytest.mark.parametrize(("section", "struct"), PAIRS, ids=lambda value: getattr(value, "what", ""))
def test_every_field_of_a_struct_has_a_rule(section: Section, struct: type[msgspec.Struct]) -> None:
    fields = {field.name: field for field in msgspec.structs.fields(struct)}
    assert set(section.fields) == set(fields)
    for name, rule in section.fields.items():
        assert bool(rule.required) == (fields[name].required or (struct, name) == (FleetFile, "fleets"))


@pytest.mark.parametrize(("section", "struct"), PAIRS, ids=lambda value: getattr(value, "what", ""))
def test_every_default_is_allowed_by_its_own_rule(section: Section, struct: type[msgspec.Struct]) -> None:
    for field in msgspec.structs.fields(struct):
        if field.required or (struct, field.name) == (ReplicaEntry, "hardware"):
            continue
        default = msgspec.to_builtins(
            field.default_factory() if field.default is msgspec.NODEFAULT else field.default
        )
        if isinstance(default, dict):
            continue  # a section of its own in this list
        problems: list[FieldProblem] = []
        section.fields[field.name].read(default, "", problems)
        assert problems == []
