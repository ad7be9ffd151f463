"""What a path asks of a V2 server, and what it is told."""

import json

import pytest

from routing.protocols import open_inference_server
from routing.protocols.open_inference_server import IndexEntry, ModelState, ServerQuery
from routing.protocols.request_info import BadRequestBody


@pytest.mark.parametrize(
    ("target", "query"),
    [
        (b"/v2", ServerQuery.METADATA),
        (b"/v2?x", ServerQuery.METADATA),
        (b"/v2/health/live", ServerQuery.LIVE),
        (b"/v2/health/ready?a=/b", ServerQuery.READY),
        (b"/v2/repository/index", ServerQuery.INDEX),
        (b"/v2/", None),
        (b"/v2/health", None),
        (b"/v2/repository/index/", None),
        (b"/v2/repository/models/m/load", None),
        (b"/v2/models/m/ready", None),
    ],
)
def test_paths_of_the_server(target: bytes, query: ServerQuery | None) -> None:
    assert open_inference_server.server_query(target) is query


@pytest.mark.parametrize(
    ("target", "asks"),
    [
        (b"/v2/models/m/ready", True),
        (b"/v2/models/org%2Fm/ready?x", True),
        (b"/v2/models/m/versions/1/ready", False),
        (b"/v2/models//ready", False),
        (b"/v2/models/ready", False),
        (b"/v2/models/m", False),
        (b"/v1/models/m/ready", False),
    ],
)
def test_whether_a_model_is_ready(target: bytes, asks: bool) -> None:
    assert open_inference_server.asks_model_ready(target) is asks


def test_a_request_for_the_index() -> None:
    wants = open_inference_server.wants_ready_only
    assert [wants(body) for body in (b"", b"{}", b'{"ready":false}', b'{"ready":true,"x":1}')] == [
        False
    ] * 3 + [True]
    with pytest.raises(BadRequestBody, match="not a request for the repository index"):
        wants(b"[" * 100_000)


def test_the_index() -> None:
    entries = [IndexEntry("a", ModelState.READY, ""), IndexEntry("b", ModelState.LOADING, "why")]
    assert json.loads(open_inference_server.index_body(entries)) == [
        {"name": "a", "state": "READY", "reason": ""},
        {"name": "b", "state": "LOADING", "reason": "why"},
    ]
