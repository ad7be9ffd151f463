"""What is read out of Open Inference (V2) requests; errors in each protocol's shape."""

import json

import pytest

from routing.protocols import open_inference
from routing.protocols.errors import error_answer, protocol_of_path


@pytest.mark.parametrize(
    ("target", "model"),
    [
        (b"/v2/models/digits/infer", "digits"),
        (b"/v2/models/digits", "digits"),
        (b"/v2/models/digits?x=/y", "digits"),
        (b"/v2/models/org%2Fbig/versions/3/infer", "org/big"),
        (b"/v2/models/%C3%A9", "é"),
        (b"/v2/models/", None),
        (b"/v2/models", None),
        (b"/v2/health/ready", None),
        (b"/other", None),
    ],
)
def test_model_of(target: bytes, model: str | None) -> None:
    assert open_inference.model_of(target) == model


def test_with_model() -> None:
    renamed = open_inference.with_model(b"/v2/models/a/versions/1/infer?b=/c", "x/y z")
    assert renamed == b"/v2/models/x%2Fy%20z/versions/1/infer?b=/c"
    assert open_inference.with_model(b"/v2/models/a", "b") == b"/v2/models/b"


def test_work_is_the_number_of_elements() -> None:
    tensors = {"inputs": [{"name": "a", "shape": [2, 64], "data": [0.5] * 128}, {"shape": [3], "data": []}]}
    assert open_inference.read(json.dumps(tensors).encode()) == ("", False, 131.0)


@pytest.mark.parametrize("body", [b"\x00\x01binary!", b'{"inputs":[]}', b'{"inputs":[{"shape":[-1, 4]}]}'])
def test_work_by_size_where_shapes_cannot_be_read(body: bytes) -> None:
    assert open_inference.read(body) == ("", False, len(body) / 8)


@pytest.mark.parametrize(
    ("target", "protocol"),
    [
        (b"/v1/chat/completions", "openai"),
        (b"/v2/models/x", "open-inference"),
        (b"/v2", "open-inference"),
        (b"/v20", "generic"),
        (b"/", "generic"),
    ],
)
def test_protocol_of_path(target: bytes, protocol: str) -> None:
    assert protocol_of_path(target) == protocol


def test_error_shapes() -> None:
    content_type, body = error_answer("openai", 503, "no_replica", "nobody")
    assert content_type == "application/json"
    assert json.loads(body) == {
        "error": {"message": "nobody", "type": "server_error", "code": "no_replica", "param": None}
    }
    assert error_answer("open-inference", 404, "x", "no") == ("application/json", b'{"error":"no"}')
    content_type, body = error_answer("generic", 502, "replica_lost", "gone")
    assert content_type == "application/problem+json"
    assert json.loads(body) == {
        "type": "about:blank",
        "title": "Bad Gateway",
        "status": 502,
        "detail": "gone",
        "code": "replica_lost",
    }
