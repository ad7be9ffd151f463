"""What an inference probe asks, what it makes of answers, and which rounds have one."""

import json

import pytest

from routing.contract import inference_probe
from routing.contract.health import Counters, next_health
from routing.contract.inference_probe import MAX_ANSWER_BYTES, InferenceKind, conclude_with, is_due
from routing.contract.probe import Probe
from routing.contract.probe_presets import Checks, checks_of
from routing.contract.probe_result import down, passed
from routing.contract.probe_rules import check_probe

URL = "http://10.0.0.1:8000/base"
HEALTHY = passed("200 OK")


def checks(kind: InferenceKind, model: str = "m", **settings: object) -> Checks:
    found, problems = check_probe({"preset": "vllm", "inference": kind, **settings})
    assert problems == []
    return checks_of(Probe(**found), "openai", URL, model)


@pytest.mark.parametrize(
    ("kind", "path", "field"),
    [
        ("chat", "/base/v1/chat/completions", "messages"),
        ("completions", "/base/v1/completions", "prompt"),
        ("embeddings", "/base/v1/embeddings", "input"),
    ],
)
def test_each_kind_asks_for_the_replicas_model(kind: InferenceKind, path: str, field: str) -> None:
    request = checks(kind, "org/m").inference
    assert request is not None
    assert (request.method, request.path) == ("POST", path)
    body = json.loads(request.body)
    assert body["model"] == "org/m"
    assert body[field]


def test_v2_has_the_operators_body_at_the_models_path() -> None:
    body = '{"inputs": [{"name": "x"}]}'
    request = checks("v2", "a b", inference_body=body).inference
    assert request is not None
    assert (request.path, request.body) == ("/base/v2/models/a%20b/infer", body.encode())


@pytest.mark.parametrize(
    ("kind", "status", "body", "outcome"),
    [
        ("chat", 200, b'{"choices":[{"message":{"content":null}}]}', "passed"),
        ("chat", 200, b'{"choices":[]}', '200 OK, but the answer has no "choices"'),
        ("chat", 200, b"", '200 OK, but the answer has no "choices"'),
        ("embeddings", 200, b'{"data":[{"embedding":[0.1]}]}', "passed"),
        ("embeddings", 200, b'{"data":[{"embedding":[' + b"0.25," * MAX_ANSWER_BYTES, "passed"),
        ("v2", 200, b'{"error":"no"}', '200 OK, but the answer has no "outputs"'),
        ("chat", 404, b'{"error":{"message":"no such model"}}', "404 no such model"),
    ],
)
def test_an_answer_is_one_of_its_protocol(
    kind: InferenceKind, status: int, body: bytes, outcome: str
) -> None:
    found = inference_probe.judge(kind, status, body[:MAX_ANSWER_BYTES])
    assert found.passed is (outcome == "passed")
    if not found.passed:
        assert found.words == outcome
        whole = conclude_with(HEALTHY, found)
        assert whole.words == f"200 OK, but an inference request failed: {outcome}"
        assert (whole.hint, whole.inconclusive) == ("unready", False)


def test_a_full_server_is_not_a_broken_one() -> None:
    for status in (429, 503):
        assert conclude_with(HEALTHY, inference_probe.judge("chat", status, b"")).inconclusive
    # It closed the connection: the server is there, so it is not down.
    assert conclude_with(HEALTHY, down("connection closed without a response")).hint == "unready"


def test_one_round_in_a_period_asks_and_all_do_while_it_is_not_ready() -> None:
    probe = checks("chat").probe
    asked = [
        sum(is_due(probe, f"uid-{number}", settled=True, now_s=at * probe.period_s) for at in range(150))
        for number in range(200)
    ]
    turns = 150 * probe.period_s / probe.inference_period_s
    assert all(turns <= count <= 2 * turns for count in asked)
    at_once = sum(is_due(probe, f"uid-{number}", settled=True, now_s=1_000.0) for number in range(1_000))
    assert at_once < 150  # they do not ask all at once
    assert is_due(probe, "uid", settled=False, now_s=0.0)
    assert not is_due(Probe(), "uid", settled=False, now_s=0.0)


def test_warm_up_wants_its_answers_in_a_row_before_the_first_traffic_and_after_down() -> None:
    probe = Probe(inference="chat", warm_up=3, rise=2)
    state, counters, has_passed, seen = "checking", Counters(), False, []
    for result in [HEALTHY, HEALTHY, conclude_with(HEALTHY, down("x")), HEALTHY, HEALTHY, HEALTHY]:
        step = next_health(
            state,  # type: ignore[arg-type]
            counters,
            result,
            probe,
            has_passed=has_passed,
            in_startup_budget=True,
            answering=False,
        )
        state, counters, has_passed = step.state, step.counters, step.has_passed
        seen.append((state, step.reason))
    assert [one for one, _ in seen] == ["checking"] * 5 + ["ready"]
    assert seen[1][1] == "200 OK (2 of 3 passes in a row)"
    again = next_health(
        "down", Counters(rises=1), HEALTHY, probe, has_passed=True, in_startup_budget=True, answering=False
    )
    assert again.state == "down"


@pytest.mark.parametrize(
    ("settings", "pointer", "words"),
    [
        ({"warm_up": 3}, "/warm_up", 'needs an inference probe: add "inference"'),
        ({"inference": "v2"}, "/inference", 'add "inference_body"'),
        ({"inference": "v2", "inference_body": "[1]"}, "/inference_body", "must be a JSON object"),
        ({"inference": "chat", "inference_body": "{"}, "/inference_body", "is not JSON"),
        ({"headers": ["Authorization: Bearer x"]}, "/headers/0", 'use "credential"'),
        ({"headers": ["Host: other"]}, "/headers/0", "set by the probe itself"),
        ({"headers": ["X-A: b\r\nX-C: d"]}, "/headers/0", 'write one as "Name: value"'),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, object], pointer: str, words: str) -> None:
    _, problems = check_probe({"preset": "vllm", **settings})
    assert [(one.pointer, words in one.message) for one in problems] == [(pointer, True)]


def test_own_header_fields_are_on_every_request() -> None:
    made = checks("chat", headers=["X-Tenant:  a b "])
    assert made.inference is not None
    for request in (*made.requests.values(), made.inference, made.load_request):
        assert ("X-Tenant", "a b") in request.headers
