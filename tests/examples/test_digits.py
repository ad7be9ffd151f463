"""A real classifier over the Open Inference Protocol: live first, ready when trained, right answers."""

import http.client
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from examples.client.requests import digit_pictures
from examples.digits.protocol import DTYPES, Inference, InferenceError, answer, read


class Server:
    """One running replica, and each status of its readiness page while it came up."""

    def __init__(self, kind: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            self.port = taken.getsockname()[1]
        command = [sys.executable, "-m", "examples.digits.server", "--kind", kind, "--port", str(self.port)]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        self.seen: list[tuple[int, int]] = []
        """(live, ready) statuses; 0: refused."""

    def wait(self, limit_s: float = 60.0) -> None:
        until = time.monotonic() + limit_s
        while True:
            now = self.status("/v2/health/live"), self.status("/v2/models/digits/ready")
            if now not in self.seen:
                self.seen.append(now)
            if now == (200, 200):
                return
            assert time.monotonic() < until, self.seen
            assert self.process.poll() is None
            time.sleep(0.01)

    def status(self, path: str) -> int:
        try:
            return self.request("GET", path)[0]
        except OSError:
            return 0

    def request(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()


@pytest.fixture(scope="module")
def linear() -> Iterator[Server]:
    server = Server("linear")
    server.wait()
    yield server
    server.process.terminate()
    server.process.wait()


def body(pictures: list[list[float]], **changes: object) -> dict[str, Any]:
    data = [value for picture in pictures for value in picture]
    tensor = {"name": "pixels", "shape": [len(pictures), 64], "datatype": "FP64", "data": data}
    return {"id": "q1", "inputs": [tensor | changes]}


def test_it_is_live_before_it_is_ready(linear: Server) -> None:
    assert (200, 503) in linear.seen
    assert linear.seen[-1] == (200, 200)


def test_it_knows_most_digits(linear: Server) -> None:
    pictures = digit_pictures()[:40]
    status, answer = linear.request("POST", "/v2/models/digits/infer", body(pictures))
    assert status == 200
    assert (answer["model_name"], answer["model_version"], answer["id"]) == ("digits", "linear", "q1")
    output = answer["outputs"][0]
    assert (output["shape"], output["datatype"]) == ([40], "INT64")
    # The data set begins 0 1 2 … 9 0 1 2 … 9.
    right = sum(digit == index % 10 for index, digit in enumerate(output["data"][:20]))
    assert right >= 17


def test_metadata_describes_the_tensors(linear: Server) -> None:
    status, answer = linear.request("GET", "/v2/models/digits")
    assert status == 200
    assert answer["inputs"] == [{"name": "pixels", "datatype": "FP64", "shape": [-1, 64]}]


def test_an_unknown_model_is_404(linear: Server) -> None:
    assert linear.request("GET", "/v2/models/letters/ready")[0] == 404
    assert linear.request("POST", "/v2/models/letters/infer", body([[0.0] * 64]))[0] == 404


def test_a_bad_request_says_what_is_wrong(linear: Server) -> None:
    status, answer = linear.request("POST", "/v2/models/digits/infer", body([[0.0] * 64], shape=[1, 63]))
    assert status == 400
    assert answer == {"error": "input 'pixels': shape must be [rows, 64], not [1, 63]"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"datatype": "BYTES"}, "datatype 'BYTES' is not a number type"),
        ({"data": [1, 2, 3]}, "data does not fill the shape"),
        ({"data": ["x"] * 64}, "data does not fill the shape"),
        ({"shape": [0, 64], "data": []}, "shape must be"),
        ({"shape": "all"}, "not an inference request"),
        ({"data": None}, "either data or 512 bytes of binary data"),
        ({"parameters": {"binary_data_size": 512}}, "either data or 512 bytes of binary data"),
    ],
)
def test_what_the_protocol_refuses(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InferenceError, match=words):
        read(json.dumps(body([[0.0] * 64], **changes)).encode(), None, 64)


def test_nested_rows_are_accepted_as_well() -> None:
    asked = read(json.dumps(body([[0.0] * 64], data=[[2.0] * 64])).encode(), None, 64)
    assert asked.rows.shape == (1, 64)
    assert (asked.request_id, asked.binary_output) == ("q1", False)


def binary_body(datatype: str, pictures: NDArray[Any], **said: Any) -> tuple[bytes, str]:
    """A request with the tensor behind the JSON object, and the length of that."""
    raw = pictures.astype(DTYPES[datatype]).tobytes()
    tensor = {"name": "pixels", "shape": list(pictures.shape), "datatype": datatype}
    tensor["parameters"] = {"binary_data_size": said.pop("size", len(raw))}
    head = json.dumps({"inputs": [tensor], **said}).encode()
    return head + raw, str(len(head))


@pytest.mark.parametrize("datatype", ["FP64", "FP32", "FP16", "UINT8", "INT64"])
def test_binary_tensors_have_the_same_rows(datatype: str) -> None:
    pictures = np.array(digit_pictures()[:3])
    asked = read(*binary_body(datatype, pictures), 64)
    assert (asked.rows == pictures).all()
    assert not asked.binary_output


def test_an_output_is_binary_where_that_is_asked_for() -> None:
    picture = np.zeros((1, 64))
    all_binary = {"parameters": {"binary_data_output": True}}
    this = {"outputs": [{"name": "digit", "parameters": {"binary_data": True}}]}
    not_this = {"outputs": [{"name": "digit", "parameters": {"binary_data": False}}]}
    wanted = [
        read(*binary_body("FP32", picture, **said), 64).binary_output
        for said in ({}, all_binary, this, {**all_binary, **not_this})
    ]
    assert wanted == [False, True, True, False]


def test_a_binary_answer_is_a_json_object_and_the_tensor() -> None:
    said = answer("digits", "linear", np.array([3, 9]), Inference(np.zeros((2, 64)), None, True))
    assert said.json_length is not None
    [output] = json.loads(said.body[: said.json_length])["outputs"]
    assert output == {
        "name": "digit",
        "shape": [2],
        "datatype": "INT64",
        "parameters": {"binary_data_size": 16},
    }
    assert np.frombuffer(said.body[said.json_length :], "<i8").tolist() == [3, 9]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"size": 255}, "either data or 256 bytes of binary data"),
        ({"size": 10**9}, "either data or 256 bytes of binary data"),
        ({"outputs": [{"name": "letter"}]}, "there is no output 'letter', only 'digit'"),
    ],
)
def test_what_is_wrong_with_binary_requests(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InferenceError, match=words):
        read(*binary_body("FP32", np.zeros((1, 64)), **changes), 64)


@pytest.mark.parametrize("length", ["", "-1", "x", "100000", "²"])
def test_a_length_that_is_none(length: str) -> None:
    with pytest.raises(InferenceError, match="is no length within the body"):
        read(b"{}", length, 64)


def test_the_index_says_whether_the_model_is_ready(linear: Server) -> None:
    status, models = linear.request("POST", "/v2/repository/index")
    assert (status, models) == (
        200,
        [{"name": "digits", "version": "linear", "state": "READY", "reason": ""}],
    )
