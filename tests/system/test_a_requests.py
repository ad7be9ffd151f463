"""What ``make up`` starts answers real requests of every kind."""

import http.client
import json
import re
import shlex
from contextlib import closing
from urllib.parse import urlsplit

import pytest

from examples.client.requests import digit_pictures
from tests.proxy_process import until
from tests.system.stack import Stack, exchange, one_digit

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]

CHAT = {"model": "tiny-llm", "max_tokens": 8, "messages": [{"role": "user", "content": "bala kiru"}]}


def test_it_prints_where_to_look_and_a_command_that_works(stack: Stack) -> None:
    assert f"dashboard   {stack.url}\n" in stack.said
    assert f"proxy       http://127.0.0.1:{stack.proxy_port}\n" in stack.said
    assert len(stack.one_time_password) >= 16
    command = shlex.split(next(line for line in stack.said.splitlines() if line.startswith("curl ")))
    assert command[:2] == ["curl", "-s"]
    url, body = urlsplit(command[2]), command[command.index("-d") + 1]
    assert command[command.index("-H") + 1] == "Content-Type: application/json"
    answer = exchange(url.port or 0, "POST", url.path, json.loads(body))
    assert answer.status == 200
    assert answer.json["choices"][0]["message"]["content"]


def test_all_replicas_become_ready_the_slow_one_last(stack: Stack) -> None:
    until(lambda: len(stack.eligible("tiny-llm")) == 4, "four language models", 90)
    until(lambda: len(stack.eligible("digits")) == 3, "three classifiers", 90)


def test_chat_names_its_replica_and_the_way(stack: Stack) -> None:
    answer = stack.ask("/v1/chat/completions", CHAT)
    assert answer.status == 200
    assert answer.json["usage"]["completion_tokens"] == 8
    assert answer.replica in ("quick", "steady", "deep", "wide")
    assert re.fullmatch(r"1\.1 switchyard-[0-9a-f]{12}", answer.headers["via"])
    assert answer.headers["x-request-id"]


def test_an_alias_finds_the_same_fleet(stack: Stack) -> None:
    assert stack.ask("/v1/chat/completions", {**CHAT, "model": "chat"}).status == 200


def test_chat_streams_token_by_token(stack: Stack) -> None:
    with closing(http.client.HTTPConnection("127.0.0.1", stack.proxy_port, timeout=60)) as connection:
        body = json.dumps({**CHAT, "stream": True, "max_tokens": 20})
        connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        assert response.status == 200
        assert response.getheader("Content-Type", "").startswith("text/event-stream")
        events = [line for line in response if line.startswith(b"data: ")]
    assert len(events) >= 20
    assert events[-1].strip() == b"data: [DONE]"


def test_completions_streamed_and_not(stack: Stack) -> None:
    body = {"model": "tiny-llm", "prompt": "bala", "max_tokens": 5}
    assert stack.ask("/v1/completions", body).json["usage"]["completion_tokens"] == 5
    assert stack.ask("/v1/completions", {**body, "stream": True}).body.rstrip().endswith(b"data: [DONE]")


def test_digits_are_recognised(stack: Stack) -> None:
    """The data set begins 0, 1, 2 … 9; every classifier gets more than nine in ten right."""
    pictures = digit_pictures()[:10]
    tensor = {
        "name": "pixels",
        "shape": [10, 64],
        "datatype": "FP64",
        "data": [v for p in pictures for v in p],
    }
    answer = stack.ask("/v2/models/digits/infer", {"inputs": [tensor]})
    assert answer.status == 200
    digits = answer.json["outputs"][0]["data"]
    assert sum(digit == index for index, digit in enumerate(digits)) >= 8


def test_a_fleet_named_in_the_path(stack: Stack) -> None:
    assert stack.ask("/fleets/digits/v2/models/digits/infer", one_digit()).status == 200
    assert stack.ask("/fleets/digits/v2/health/ready").status == 200


def test_models_are_listed_by_the_proxy(stack: Stack) -> None:
    listed = {model["id"] for model in stack.ask("/v1/models").json["data"]}
    assert {"tiny-llm", "chat"} <= listed


def test_an_unknown_model_is_refused_in_the_callers_own_shape(stack: Stack) -> None:
    answer = stack.ask("/v1/chat/completions", {**CHAT, "model": "nobody"})
    assert answer.status == 404
    assert "tiny-llm" in answer.json["error"]["message"]
