"""Static files of a whole installation: pages name them by their hashes, and get them compressed."""

import http.client
import re
from contextlib import closing

import pytest

from tests.system.stack import Stack

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]


def fetched(stack: Stack, path: str, encoding: str = "br") -> http.client.HTTPResponse:
    with closing(http.client.HTTPConnection("127.0.0.1", stack.port, timeout=10)) as client:
        client.request("GET", path, headers={"Accept-Encoding": encoding})
        answer = client.getresponse()
        answer.read()
        return answer


@pytest.mark.parametrize("encoding", ["br", "gzip"])
def test_what_a_page_names_comes_compressed_and_for_a_year(stack: Stack, encoding: str) -> None:
    with closing(http.client.HTTPConnection("127.0.0.1", stack.port, timeout=10)) as client:
        client.request("GET", "/login")
        page = client.getresponse().read().decode()
    named = re.findall(r'"(/static/[^"]+\.(?:css|js))"', page)
    assert named
    answers = [fetched(stack, path, encoding) for path in named]
    assert {answer.status for answer in answers} == {200}
    assert encoding in {answer.headers["Content-Encoding"] for answer in answers}
    assert all("max-age=315360000" in answer.headers["Cache-Control"] for answer in answers)
