"""The model that a JSON object names, read piece by piece: cut anywhere, it says what the whole body says."""

import json

import pytest

from routing.protocols import named_models
from routing.protocols.object_scan import ObjectScan
from routing.protocols.request_info import BadRequestBody

WHOLE = {
    "first": (b'{"model": "b", "prompt": "x"}', ["b"]),
    "last": (b' \r\n{"messages": [{"content": "\\\\", "model": "x"}], "n": 1, "model":\t"b"}\n', ["b"]),
    "escaped": (rb'{"\u006dodel": "\u0062"}', ["b"]),
    "another case": (b'{"Model": "b"}', ["b"]),
    "quotes and brackets in text": (json.dumps({"a": '"}]{["\\', "model": "b"}).encode(), ["b"]),
    "a value called model": (b'{"prompt": "model", "x": "b"}', []),
    "deeper only": (b'{"a": {"model": "b"}, "b": [[{"model": "c"}]]}', []),
    "null": (b'{"model": null}', []),
    "empty": (b'{"model": ""}', []),
    "none": (b"{}", []),
    "long text before": (json.dumps({"prompt": "x" * 9000, "model": "b"}).encode(), ["b"]),
}
REFUSED = {
    "two": b'{"model": "b", "model": "a"}',
    "two, one escaped": rb'{"model": "b", "\u006dodel": "a"}',
    "a list": b'{"model": ["b"]}',
    "an object": b'{"model": {"a": "b"}}',
    "unfinished": b'{"model": "b"',
    "unfinished text": b'{"model": "b',
    "no object": b'[{"model": "b"}]',
    "a byte order mark": b'\xef\xbb\xbf{"model": "b"}',
}


def read(body: bytes, step: int) -> list[str]:
    scan = ObjectScan(any_content=False)
    names = [name for at in range(0, len(body), step) for name in scan.feed(body[at : at + step])]
    scan.finish()
    return names


@pytest.mark.parametrize("step", [1, 2, 3, 7, 1 << 20])
@pytest.mark.parametrize("what", WHOLE)
def test_it_finds_what_the_whole_body_names(what: str, step: int) -> None:
    body, names = WHOLE[what]
    assert read(body, step) == names == named_models.in_body(b"", body, any_content=False).models


@pytest.mark.parametrize("step", [1, 5, 1 << 20])
@pytest.mark.parametrize("what", REFUSED)
def test_it_refuses_what_is_refused_of_the_whole_body(what: str, step: int) -> None:
    with pytest.raises(BadRequestBody):
        read(REFUSED[what], step)
    with pytest.raises(BadRequestBody):
        named_models.in_body(b"", REFUSED[what], any_content=False)


def test_anything_may_be_sent_where_any_content_may() -> None:
    scan = ObjectScan(any_content=True)
    assert scan.feed(b"\x89PNG") == scan.feed(b'{"model": "b"}') == []
    scan.finish()
    with pytest.raises(BadRequestBody):
        ObjectScan(any_content=True).feed('{"model": "b"}'.encode("utf-16"))


def test_a_long_text_is_not_kept() -> None:
    scan = ObjectScan(any_content=False)
    scan.feed(b'{"model": "')
    for _ in range(100):
        scan.feed(b"x" * 65_536)
    (name,) = scan.feed(b'"}')
    assert len(name) < 10_000
