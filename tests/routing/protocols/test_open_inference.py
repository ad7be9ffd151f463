"""What is read out of Open Inference (V2) requests; errors in each protocol's shape."""

import json
import time

import pytest

from routing.protocols import open_inference
from routing.protocols.errors import error_content, protocol_of_path
from routing.protocols.request_info import RequestInfo

INFER = b"/v2/models/digits/infer"


def whole(body: bytes) -> RequestInfo:
    return open_inference.read(INFER, b"", body, len(body))


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
    assert whole(json.dumps(tensors).encode()) == ("", False, 131.0)


@pytest.mark.parametrize(
    "body",
    [
        b"\x00\x01binary!",
        b'{"inputs":[]}',
        b'{"inputs":[{"shape":[-1, 4]}]}',
        b'{"inputs":[{"shape":[9223372036854775807, 9223372036854775807]}]}',
        b'{"inputs":[{"shape":[%b]}]}' % (b"9" * 400),
    ],
)
def test_work_by_size_where_shapes_do_not_tell(body: bytes) -> None:
    assert whole(body) == ("", False, len(body) / 8)


def test_a_shape_without_end_costs_no_time() -> None:
    """Its product would have millions of digits."""
    body = b'{"inputs":[{"shape":[%b]}]}' % b",".join([b"9223372036854775807"] * 100_000)
    started = time.process_time()
    assert whole(body) == ("", False, len(body) / 8)
    assert time.process_time() - started < 1


JSON = b'{"inputs":[{"name":"x","shape":[2,8],"datatype":"FP32","parameters":{"binary_data_size":64}}]}'
TENSORS = bytes(range(64))


@pytest.mark.parametrize(
    "dimension", [10**4299, 10**18, 10**12, -(10**18)], ids=["huge", "18", "12", "negative"]
)
def test_large_dimensions_cost_no_time(dimension: int) -> None:
    shape = [dimension] * 31 + [2]
    body = json.dumps({"inputs": [{"shape": shape}] * 20}).encode()
    started = time.process_time()
    assert open_inference.read(b"/v2/models/m/infer", b"", body, len(body)) == ("", False, len(body) / 8)
    assert time.process_time() - started < 0.005


def with_length(value: object) -> bytes:
    return b"\r\nContent-Type: x\r\ninference-Header-content-length:  %b \r\nA: b" % str(value).encode()


def test_work_of_binary_tensors_is_in_the_json_before_them() -> None:
    body, fields = JSON + TENSORS, with_length(len(JSON))
    assert open_inference.read(INFER, fields, body, len(body)) == ("", False, 16.0)
    # The same while most of it is still to come, as soon as the object is here.
    for here in (len(JSON), len(body) - 1):
        assert open_inference.read(INFER, fields, body[:here], len(body)) == ("", False, 16.0)
    assert open_inference.read(INFER, fields, JSON[:-1], len(body)) == ("", False, len(body) / 4)
    assert open_inference.read(INFER, b"", body, len(body)) == ("", False, len(body) / 8)


@pytest.mark.parametrize("value", [0, 5, len(JSON) - 1, len(JSON) + 1, 10**15])
def test_a_wrong_length_of_the_json_costs_the_estimate_alone(value: int) -> None:
    body = JSON + TENSORS
    assert open_inference.read(INFER, with_length(value), body, len(body)) == ("", False, len(body) / 4)


@pytest.mark.parametrize("value", ["", "-5", "5x", "9" * 19, "1 2"])
def test_what_is_no_length_at_all(value: str) -> None:
    body = JSON + TENSORS
    assert open_inference.read(INFER, with_length(value), body, len(body)) == ("", False, len(body) / 8)


def test_generated_tokens_are_the_work_of_the_generate_extension() -> None:
    body = b'{"text_input":"hello","parameters":{"max_tokens":50,"stream":false}}'
    for target in (b"/v2/models/m/generate?x", b"/v2/models/m/versions/1/generate"):
        assert open_inference.read(target, b"", body, len(body)) == ("", False, len(body) / 4 + 50)
    stream = b"/v2/models/m/versions/1/generate_stream"
    top = b'{"text_input":"hello","max_tokens":7}'
    assert open_inference.read(stream, b"", top, len(top)) == ("", True, len(top) / 4 + 7)
    for unlimited in (b'{"text_input":"hello"}', b'{"max_tokens":%b}' % (b"9" * 400), b"no json"):
        assert open_inference.read(stream, b"", unlimited, len(unlimited))[2] in (-len(unlimited) / 4, 0.0)
    assert open_inference.read(stream, b"", b"", 5000) == ("", True, 0.0)


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
    content_type, body = error_content("openai", 503, "no_replica", "nobody")
    assert content_type == "application/json"
    assert json.loads(body) == {
        "error": {"message": "nobody", "type": "server_error", "code": "no_replica", "param": None}
    }
    assert error_content("open-inference", 404, "x", "no") == ("application/json", b'{"error":"no"}')
    content_type, body = error_content("generic", 502, "replica_lost", "gone")
    assert content_type == "application/problem+json"
    assert json.loads(body) == {
        "type": "about:blank",
        "title": "Bad Gateway",
        "status": 502,
        "detail": "gone",
        "code": "replica_lost",
    }
