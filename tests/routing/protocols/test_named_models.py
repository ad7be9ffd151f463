"""Names of models in bodies: what is compact is read faster, and never otherwise."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.protocols.named_models import in_body, in_target, is_named_once
from routing.protocols.request_info import BadRequestBody

FIELDS = b"\r\nContent-Type: application/json"


def named(body: bytes) -> list[str]:
    return in_body(FIELDS, body, any_content=False).models


def refused(body: bytes) -> bool:
    try:
        named(body)
    except BadRequestBody:
        return True
    return False


@pytest.mark.parametrize(
    "body",
    [
        b'{"model":"a","model":"a"}',
        b'{"model":"a","x":1,"model":"b"}',
        b'{"model":"a", "model":"b"}',
        b'{"model":"a","Model":"b"}',
        b'{"MODEL":"a","Model":"b"}',
        b'{"Model":"a","Model":"b"}',
        b'{"model":"a","\\u006dodel":"b"}',
        b'{"\\u004dodel":"a","model":"b"}',
        b'{"model":null,"model":"b"}',
    ],
)
def test_two_names_are_one_too_many(body: bytes) -> None:
    assert refused(body)


@pytest.mark.parametrize(
    ("body", "models"),
    [
        (b'{"model":"a"}', ["a"]),
        (b'{"model": "a", "x": 1}', ["a"]),
        (b'{"Model":"a"}', ["a"]),
        (b'{"\\u006dodel":"a"}', ["a"]),
        (b'{"model":"\\u0061"}', ["a"]),
        (b'{"x":{"model":"b"},"model":"a","y":["model"]}', ["a"]),
        (b'{"model":null}', []),
        (b'{"model":""}', []),
        (b"{}", []),
    ],
)
def test_one_name_however_it_is_written(body: bytes, models: list[str]) -> None:
    assert named(body) == models


@pytest.mark.parametrize("body", [b'{"model":1}', b'{"model":["a"]}', b'{"model":"a"', b'{"a":1}}'])
def test_what_is_no_object_with_a_string(body: bytes) -> None:
    assert refused(body)


names = st.sampled_from(["model", "Model", "x", "é", "mo\\del", "messages", "odel"])


@pytest.mark.parametrize(
    ("members", "adapters"),
    [
        (b'"lora_path":"b"', ["b"]),
        (b'"lora_path": ["b", null, "c"]', ["b", "c"]),
        (b'"lora_path":"b","lora_path":null', ["b"]),
        (b'"lora_path":null,"LORA_PATH":"b"', ["b"]),
        (b'"lora\\u005fpath":"b"', ["b"]),
        (b'"lo\\u0072a_path":"b"', ["b"]),
        (b'"adapter_id":"b"', ["b"]),
        (b'"parameters":{"adapter_id":"b"}', ["b"]),
        (b'"parameters":{"adapter_id":"a"},"parameters":{"adapter_id":"b"}', ["a", "b"]),
        (b'"parameters":{"merged_adapters":{"ids":["b","c"],"weights":[1,2]}}', ["b", "c"]),
        (b'"merged_adapters":{"ids":["b"]}', ["b"]),
        (b'"tools":[{"lora_path":"b"}],"metadata":{"adapter_id":"b"}', []),
        (b'"lora_path":null,"adapter_id":""', []),
    ],
)
def test_adapters(members: bytes, adapters: list[str]) -> None:
    body = b'{"model":"a",' + members + b"}"
    assert in_body(FIELDS, body, any_content=False) == (["a"], adapters)
    assert in_body(FIELDS, body.replace(b'"model":', b'"model" : '), any_content=False) == (["a"], adapters)
    assert not is_named_once(FIELDS, body)


values = st.sampled_from(["a", "b", "", None, 1, {"model": "c"}, ["model"]])


@given(st.lists(st.tuples(names, values), max_size=4), st.booleans())
def test_blanks_change_nothing(members: list[tuple[str, Any]], ascii_only: bool) -> None:
    pairs = [(json.dumps(name, ensure_ascii=ascii_only), value) for name, value in members]
    written = [(name, json.dumps(value, separators=(",", ":"))) for name, value in pairs]
    compact = ("{" + ",".join(f"{name}:{value}" for name, value in written) + "}").encode()
    spaced = ("{ " + " , ".join(f"{name} : {value}" for name, value in written) + " }").encode()
    assert refused(compact) == refused(spaced)
    if not refused(compact):
        assert named(compact) == named(spaced)


def test_a_target_says_it_once() -> None:
    assert in_target(b"/v1/chat/completions") == ((), (), False)
    assert in_target(b"/v2/models/a/infer?model=b") == (("a/infer",), ("b",), True)
    assert in_target(b"/v2/models/a/config") == (("a/config",), (), False)
    long = b"/predictions/" + b"a" * 1000
    assert in_target(long) == (("a" * 1000,), (), True)


BODY = b'{"model":"a","messages":[{"role":"user","content":"the \\"model\\" of it"}]}'


@pytest.mark.parametrize(
    ("fields", "body", "once"),
    [
        (FIELDS, BODY, True),
        (FIELDS.lower(), BODY, True),
        (FIELDS, BODY.replace(b":", b" : "), True),
        (FIELDS, BODY[:-1] + b',"Model":"b"}', False),
        (FIELDS, BODY[:-1] + b',"\\u006dodel":"b"}', False),
        (FIELDS, BODY[:-1] + b',"mod\\u0045l":"b"}', False),
        (FIELDS, BODY[:-1] + b',"tool":{"model":"b"}}', False),
        (FIELDS, BODY[:-1] + b',"x":"' + b"y" * 10_000 + b'"}', False),
        (b"", BODY, False),
        (FIELDS + b"; charset=utf-16", BODY, False),
        (FIELDS + b"\r\nContent-Encoding: gzip", BODY, False),
        (FIELDS + b"\r\ncontent-type: text/plain", BODY, False),
        (b"\r\nContent-Type: multipart/form-data; boundary=x", BODY, False),
    ],
)
def test_the_fast_look_says_yes_only_where_nothing_else_can_be_named(
    fields: bytes, body: bytes, once: bool
) -> None:
    assert is_named_once(fields, body) is once


@given(st.lists(st.tuples(names, values), max_size=4), st.booleans())
def test_the_fast_look_never_says_yes_where_the_other_finds_two(
    members: list[tuple[str, Any]], ascii_only: bool
) -> None:
    written = [f"{json.dumps(name, ensure_ascii=ascii_only)}:{json.dumps(value)}" for name, value in members]
    body = ("{" + ",".join(written) + "}").encode()
    if is_named_once(FIELDS, body) and not refused(body):
        assert len(named(body)) <= 1
    if refused(body) and sum(name.casefold() == "model" for name, _ in members) > 1:
        assert not is_named_once(FIELDS, body)
