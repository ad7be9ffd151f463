"""A write that is refused leaves no trace: no row, no event, no audit entry, nothing for proxies."""

from typing import Any

import pytest
from django.apps import apps

from tests.controlplane.conftest import LLM, Api

NEW = {**LLM, "name": "new", "aliases": []}
GOOD = {"name": "c", "url": "http://127.0.0.1:9"}

REFUSED = {
    "the second replica's hardware class is unknown": (
        "post",
        "/fleets",
        {**NEW, "default": True, "replicas": [GOOD, {**GOOD, "name": "d", "hardware": "none"}]},
        400,
    ),
    "the second replica's name is taken by the first": (
        "post",
        "/fleets",
        {**NEW, "replicas": [GOOD, GOOD]},
        400,
    ),
    "an alias is another fleet's": ("post", "/fleets", {**NEW, "aliases": ["chat"]}, 400),
    "a match is another fleet's": ("post", "/fleets", {**NEW, "match": [{"host": "a.test"}]}, 400),
    "one field of two is wrong": ("patch", "/fleets/llm", {"default": True, "aliases": [5]}, 400),
    "a field is unknown": ("patch", "/fleets/llm", {"default": True, "colour": "red"}, 400),
    "a name is changed": ("patch", "/fleets/llm", {"default": True, "name": "other"}, 400),
    "a new replica's weight is -1": ("post", "/fleets/llm/replicas", {**GOOD, "weight": -1}, 400),
    "a replica's weight is -1": ("patch", "/fleets/llm/replicas/a", {"weight": -1, "url": "http://h"}, 400),
    "a replica's class is unknown": ("patch", "/fleets/llm/replicas/a", {"weight": 3, "hardware": "x"}, 400),
    "a replica's address is forbidden": (
        "patch",
        "/fleets/llm/replicas/a",
        {"weight": 3, "url": "http://169.254.169.254"},
        400,
    ),
    "a policy's parameter is unknown": (
        "patch",
        "/fleets/llm/policy",
        {"slow_start_s": 5, "parameters": {"x": 1}},
        400,
    ),
    "a revision is unknown": ("post", "/fleets/llm/revisions/7/restore", None, 404),
    "a class's weight is -1": ("patch", "/hardware-classes/h100", {"weight": -1}, 400),
    "a class's weight is text": ("post", "/hardware-classes", {"name": "l4", "weight": "1"}, 400),
    "a class is in use": ("delete", "/hardware-classes/h100", None, 409),
    "somebody else wrote first": ("patch", "/fleets/llm", {"default": True}, 412),
}


def everything() -> dict[str, list[Any]]:
    """Every row of the control plane, but for when a token was last used."""
    models = apps.get_app_config("controlplane").get_models()
    return {model.__name__: list(model.objects.order_by("pk").values()) for model in models} | {
        "ApiToken": []
    }


@pytest.mark.parametrize("why", REFUSED)
def test_a_refused_write_leaves_no_trace(api: Api, llm: str, redis_client: Any, why: str) -> None:
    method, path, body, status = REFUSED[why]
    assert api.post("/hardware-classes", {"name": "h100"}).status_code == 201
    used = {"hardware": "h100"}
    assert api.patch("/fleets/llm/replicas/b", used).status_code == 200
    assert api.patch("/fleets/llm", {"match": [{"host": "a.test"}]}).status_code == 200
    rows, told = everything(), table(redis_client)
    headers = {"if_match": '"99"'} if status == 412 else {}
    answer = api(method, path, body, **headers)
    assert answer.status_code == status, answer.content
    assert answer["Content-Type"] == "application/problem+json"
    assert answer.json()["detail"]
    assert everything() == rows
    assert table(redis_client) == told


def table(redis_client: Any) -> dict[bytes, Any]:
    """What proxies read."""
    keys = [*redis_client.keys("sy:fleet:*"), *redis_client.keys("sy:manifest")]
    return {key: redis_client.hgetall(key) for key in keys if redis_client.type(key) == b"hash"}
