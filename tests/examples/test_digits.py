"""A real classifier over the Open Inference Protocol: live first, ready when trained, right answers."""

import http.client
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from examples.client.requests import digit_pictures
from examples.digits.protocol import InferenceError, rows


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
    ],
)
def test_what_the_protocol_refuses(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InferenceError, match=words):
        rows(json.dumps(body([[0.0] * 64], **changes)).encode(), 64)


def test_nested_rows_are_accepted_as_well() -> None:
    values, request_id = rows(json.dumps(body([[0.0] * 64], data=[[2.0] * 64])).encode(), 64)
    assert values.shape == (1, 64)
    assert request_id == "q1"
