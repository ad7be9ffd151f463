"""Refusals of the API: each names the place and the cure, and nothing is written."""

from collections.abc import Iterator
from typing import Any

import pytest

from controlplane.models import AuditEntry, Event, Fleet, HardwareClass, PolicyRevision, Replica, TableState
from routing.contract.field_rules import MOST_PROBLEMS
from tests.controlplane.conftest import Api

FLEET = {"name": "x", "protocol": "openai"}
REPLICA = {"name": "z", "url": "http://127.0.0.1:9"}
NAME_RULE = "use 1 to 63 lower-case letters, digits, dots, hyphens and underscores"


def everything() -> list[Any]:
    """All rows that a write touches."""
    models = (Fleet, Replica, HardwareClass, PolicyRevision, TableState, AuditEntry, Event)
    return [list(model.objects.order_by("pk").values()) for model in models]


@pytest.fixture(autouse=True)
def nothing_is_written(llm: str, api: Api) -> Iterator[None]:
    before = everything()
    yield
    assert everything() == before


REFUSED: list[tuple[str, Any, int, str, str]] = [
    # wrong types
    ("/fleets", {**FLEET, "name": 5}, 400, "/name", "must be text, not the number 5: put it in quotes"),
    (
        "/fleets",
        {**FLEET, "default": "yes"},
        400,
        "/default",
        'must be true or false, not the text "yes"',
    ),
    (
        "/fleets",
        {**FLEET, "replicas": {"a": 1}},
        400,
        "/replicas",
        "must be a list, not a group of fields",
    ),
    ("/fleets", {**FLEET, "protocol": None}, 400, "/protocol", "has no value: give it one, or remove it"),
    ("/fleets/llm/replicas", {**REPLICA, "weight": "2"}, 400, "/weight", "remove the quotes"),
    (
        "/fleets/llm/replicas",
        {**REPLICA, "max_concurrency": 1.5},
        400,
        "/max_concurrency",
        "must be a whole number",
    ),
    # unknown, misspelt and reserved fields
    ("/fleets", {**FLEET, "alias": []}, 400, "/alias", 'unknown field "alias"; did you mean "aliases"?'),
    ("/fleets/llm/replicas", {**REPLICA, "weigth": 1}, 400, "/weigth", 'did you mean "weight"?'),
    (
        "/fleets",
        {**FLEET, "policy": {"slo": {"latency_s": -1}}},
        400,
        "/policy/slo/latency_s",
        "must be from 0.001 to 3600 seconds",
    ),
    (
        "/fleets",
        {**FLEET, "policy": {"timeouts": {"conect_s": 1}}},
        400,
        "/policy/timeouts/conect_s",
        '"connect_s"?',
    ),
    # names
    ("/fleets", {**FLEET, "name": "X y"}, 400, "/name", NAME_RULE),
    (
        "/fleets",
        {**FLEET, "name": "llm"},
        409,
        "/name",
        "There is a fleet llm already: choose another name",
    ),
    (
        "/fleets",
        {**FLEET, "name": "chat"},
        400,
        "/name",
        "is already an alias of fleet llm: choose another",
    ),
    ("/fleets", {**FLEET, "aliases": ["llm"]}, 400, "/aliases/0", "is already the name of fleet llm"),
    (
        "/fleets",
        {**FLEET, "replicas": [REPLICA, REPLICA]},
        400,
        "/replicas/1/name",
        'the name "z" is already taken by replicas[0]: choose another',
    ),
    (
        "/fleets/llm/replicas",
        {**REPLICA, "name": "a"},
        409,
        "/name",
        "has a replica a already: choose another",
    ),
    # addresses
    (
        "/fleets/llm/replicas",
        {**REPLICA, "url": "h:1"},
        400,
        "/url",
        "is not a URL: write http://host:port",
    ),
    ("/fleets/llm/replicas", {**REPLICA, "url": "ftp://h"}, 400, "/url", "write http://host:port"),
    (
        "/fleets/llm/replicas",
        {**REPLICA, "url": "http://h:0"},
        400,
        "/url",
        "write a number from 1 to 65535",
    ),
    (
        "/fleets/llm/replicas",
        {**REPLICA, "url": "http://a:b@h"},
        400,
        "/url",
        "remove everything up to the @",
    ),
    (
        "/fleets/llm/replicas",
        {**REPLICA, "url": "http://169.254.169.254"},
        400,
        "/url",
        "no replica can be there",
    ),
    (
        "/fleets/llm/replicas",
        {**REPLICA, "url": "http://[::]:1"},
        400,
        "/url",
        "not an address of a host",
    ),
    (
        "/fleets/llm/replicas",
        {**REPLICA, "url": "http://metadata.goog"},
        400,
        "/url",
        "no replica can be there",
    ),
    # numbers
    ("/fleets/llm/replicas", {**REPLICA, "weight": -1}, 400, "/weight", "must be from 0 to 1000, not -1"),
    ("/fleets/llm/replicas", {**REPLICA, "weight": 10**18}, 400, "/weight", "must be from 0 to 1000"),
    ("/hardware-classes", {"name": "h", "weight": -1}, 400, "/weight", "must be from 0 to 1000, not -1"),
    ("/hardware-classes", {"name": "h", "weight": True}, 400, "/weight", "must be a number, not true"),
    # what does not exist
    (
        "/fleets/llm/replicas",
        {**REPLICA, "hardware": "h9"},
        400,
        "/hardware",
        'there is no hardware class "h9"',
    ),
    (
        "/fleets",
        {**FLEET, "policy": {"strategy": "rand"}},
        400,
        "/policy/strategy",
        'did you mean "random"?',
    ),
    ("/fleets", {**FLEET, "probe": {"preset": "vlm"}}, 400, "/probe/preset", 'did you mean "vllm"?'),
    ("/fleets", {**FLEET, "match": [{"host": "http://x"}]}, 400, "/match/0/host", "write the name alone"),
]


def test_a_post_is_refused_with_place_and_cure(api: Api) -> None:
    """One test for all of them: each needs the same rows, and leaves them as they were."""
    for path, body, status, pointer, words in REFUSED:
        answer = api.post(path, body)
        assert (answer.status_code, answer["Content-Type"]) == (status, "application/problem+json"), body
        problem = answer.json()
        (error,) = problem["errors"]
        assert error["pointer"] == pointer
        assert words in error["detail"]
        assert words in problem["detail"]


CHANGES: list[tuple[str, Any, str]] = [
    ("/fleets/llm/replicas/a", {"weight": -1}, "weight: must be from 0 to 1000, not -1"),
    ("/fleets/llm/replicas/a", {"name": "b"}, "name: a replica's name cannot change"),
    ("/fleets/llm/replicas/a", {"admin_state": "drainig"}, 'did you mean "draining"?'),
    ("/fleets/llm", {"replicas": []}, "replicas: change them at /api/v1/fleets/llm/replicas"),
    (
        "/fleets/llm/policy",
        {"timeouts": {"total_s": 0}},
        "timeouts.total_s: must be from 0.001 to 86400 seconds",
    ),
    ("/fleets/llm/policy", {"parameters": {"kappa": [1]}}, "parameters.kappa: must be a finite number"),
    ("/fleets/llm/policy", {"parameters": {"kapa": 1}}, "its parameters are: kappa"),
    (
        "/fleets/llm/policy",
        {"slo": {"latency_s": -1}},
        "must be from 0.001 to 3600 seconds",
    ),
]


def test_a_refused_change_says_the_field_in_its_first_sentence(api: Api) -> None:
    for path, body, detail in CHANGES:
        answer = api.patch(path, body)
        assert answer.status_code == 400, body
        assert detail in answer.json()["detail"]


def test_all_wrong_fields_are_told_at_once(api: Api) -> None:
    answer = api.post("/fleets", {"name": "X y", "protocol": "grpc", "alias": []})
    assert answer.json()["detail"] == "3 fields are wrong."
    assert [error["pointer"] for error in answer.json()["errors"]] == ["/name", "/protocol", "/alias"]


UNREADABLE: list[tuple[bytes, str]] = [
    (b"{", "The body is not JSON: unexpected end of data: line 1 column 2"),
    (b"[]", "The body must be a JSON object, not a list."),
    (b'{"name": NaN}', "The body is not JSON"),
    (b"\xff", "The body is not JSON: str is not valid UTF-8"),
    (
        b'{"name": "x",\n "name": "y", "protocol": "openai"}',
        '"name" is written twice in one object: keep one',
    ),
    (
        b'{"name": "x", "protocol": "openai", "policy": {"slow_start_s": 1, "slow_start_s": 2}}',
        '"slow_start_s"',
    ),
    (b"[" * 100_000, "The body is not JSON: depth limit exceeded"),
    (b'{"name": "x", "protocol": "openai", "policy": {"slow_start_s": 1e999}}', "number is infinity"),
    (b'{"name": "\\ud800", "protocol": "openai"}', "The body is not JSON: no low surrogate"),
]


def test_a_body_that_cannot_be_read(api: Api) -> None:
    for raw, words in UNREADABLE:
        answer = api.client.post("/api/v1/fleets", raw, content_type="application/json", headers=api.headers)
        assert answer.status_code == 400, raw[:80]
        assert words in answer.json()["detail"]


def test_a_body_that_is_not_json_by_name(api: Api) -> None:
    answer = api.client.post("/api/v1/fleets", "a=b", content_type="text/plain", headers=api.headers)
    assert answer.status_code == 415
    assert answer.json()["detail"] == (
        "The Content-Type is text/plain: send JSON, with Content-Type: application/json."
    )


def test_a_method_that_is_not_there(api: Api) -> None:
    answer = api("put", "/fleets/llm", {})
    assert answer.status_code == 405
    assert answer.json()["detail"] == "PUT is not allowed at /api/v1/fleets/llm; allowed: GET, PATCH, DELETE."


ABSENT: list[tuple[str, str]] = [
    ("/fleets/lm", 'There is no fleet "lm"; did you mean "llm"?'),
    ("/fleets/llm/replicas/zz", 'In fleet llm there is no replica "zz"; there are: a, b.'),
    ("/fleets?page=x", 'There is no page "x": pages are whole numbers from 1'),
    ("/fleets?page_size=0", 'page_size must be a whole number from 1 to 1000, not "0"'),
    ("/fleets?nope=1", 'There is no query parameter "nope"; known parameters: search, page, page_size'),
    ("/nowhere", "There is nothing at /api/v1/nowhere."),
]


def test_what_is_not_there_is_said_with_what_is(api: Api) -> None:
    for path, words in ABSENT:
        answer = api.get(path)
        assert answer.status_code in (400, 404), path
        assert words in answer.json()["detail"]


def test_no_more_errors_are_looked_for_than_anybody_reads(api: Api) -> None:
    response = api.post("/fleets", {**FLEET, **{f"unknown{number}": 1 for number in range(5000)}})
    assert (response.status_code, len(response.json()["errors"])) == (400, MOST_PROBLEMS)
