"""What is read out of forms, and changed in them."""

import os
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.protocols import multipart, openai_body
from routing.protocols.request_info import BadRequestBody

TYPE = b"\r\nContent-Type: multipart/form-data"
FILE = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n\x00\xff--b\r\n--bx\r\n-\r\n'
MODEL = b'--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nyes\r\n'
END = b"--b--\r\n"


@pytest.mark.parametrize(
    ("fields", "boundary"),
    [
        (TYPE + b"; boundary=abc", b"abc"),
        (TYPE + b";boundary=abc\r\nA: b", b"abc"),
        (TYPE + b" ; Boundary = abc ;x", b"abc"),
        (b'\r\nA: 1\r\ncontent-type:multipart/form-data; charset=x; boundary="a b"\r\nB: 2', b"a b"),
        (TYPE + b'; boundary="a\\"b"', b'a"b'),
        (
            TYPE + b"; boundary=----WebKitFormBoundary7MA4YWxkTrZu0gW=",
            b"----WebKitFormBoundary7MA4YWxkTrZu0gW=",
        ),
        (TYPE + b'; title="x; boundary=evil"; boundary=good', b"good"),
        (TYPE + b"; xboundary=evil; boundary=good", b"good"),
        (TYPE + b"; boundary*=utf-8''evil; boundary=good", b"good"),
        (TYPE + b"; boundary=%b" % (b"x" * 70), b"x" * 70),
        (TYPE + b"; boundary=%b" % (b"x" * 71), None),
        (TYPE + b"; boundary=", None),
        (TYPE + b'; boundary=""', None),
        (TYPE + b'; boundary="open', None),
        (TYPE, None),
        (TYPE + b"x; boundary=abc", None),
        (b"\r\nContent-Type: application/json; boundary=abc", None),
        (b"\r\nX-Content-Type: multipart/form-data; boundary=abc", None),
    ],
)
def test_boundary(fields: bytes, boundary: bytes | None) -> None:
    assert multipart.boundary_of(fields) == boundary


@pytest.mark.parametrize(
    "head",
    [
        b'Content-Disposition: form-data; name="model"',
        b"Content-Disposition: form-data; name=model",
        b'content-disposition:FORM-DATA;NAME="model"',
        b'Content-Disposition: form-data; filename="a; name=x"; name="model"',
        b'Content-Disposition: form-data; filename="a\\"; name=\\"x"; name="model"',
        b'Content-Disposition: form-data;\r\n name="model"',
        b'Content-Disposition:\r\n\tform-data;\r\n\t name="model"; x',
        b'Content-Type: text/plain; charset=utf-8\r\nContent-Disposition: form-data; name="model"',
        b'Content-Disposition: form-data; name="model"\r\nContent-Length: 3\r\nContent-Type: text/plain',
        b"Content-Disposition: form-data; name*=utf-8''file; name=\"model\"",
    ],
)
def test_the_field_is_found_however_it_is_written(head: bytes) -> None:
    body = FILE + b"--b\r\n" + head + b"\r\n\r\nyes\r\n" + END
    assert multipart.read(body, b"b") == ("yes", False)
    assert multipart.read(multipart.with_model(body, b"b", "org/longer name"), b"b")[0] == "org/longer name"


@pytest.mark.parametrize(
    "head",
    [
        b'Content-Disposition: form-data; name="models"',
        b'Content-Disposition: form-data; name="Model"',
        b"Content-Disposition: form-data; name*=utf-8''model",
        b'Content-Disposition: form-data; filename="x; name=model"',
        b'Content-Disposition: form-data; xname="model"',
        b'Content-Disposition: attachment; name="model"',
        b'X-Content-Disposition: form-data; name="model"',
        b'Content-Type: text/plain; name="model"',
        b'Content-Disposition: form-data; name="file"\r\n\r\nContent-Disposition: form-data; name="model"',
    ],
)
def test_what_is_not_the_field(head: bytes) -> None:
    assert multipart.read(b"--b\r\n" + head + b"\r\n\r\nno\r\n" + END, b"b") == ("", False)


@pytest.mark.parametrize(
    ("body", "model"),
    [
        (MODEL + FILE + END, "yes"),
        (FILE + MODEL + END, "yes"),
        (FILE + MODEL + b"--b--", "yes"),
        (b"preamble\r\n" + MODEL + END, "yes"),
        (b"\r\n" + MODEL + END, "yes"),
        (b"--bx\r\n" + MODEL + END, "yes"),
        (MODEL.replace(b"--b\r", b"--b \t\r") + END, "yes"),
        (MODEL.replace(b"yes", b" ye s ") + END, "ye s"),
        (MODEL.replace(b"yes", "模型".encode()) + END, "模型"),
        (MODEL.replace(b"yes", b"") + MODEL + END, "yes"),
        (MODEL + MODEL.replace(b"yes", b"second") + END, "yes"),
        (b"--b\r\n" + MODEL + END, "yes"),
        (b"--b\r\n\r\nno fields\r\n" + MODEL + END, "yes"),
        # Behind the end, or with no line end before its delimiter, nothing is a part.
        (FILE + END + MODEL + END, ""),
        (b"x" + MODEL + END, ""),
        (MODEL.replace(b"\r\n\r\n", b"\r\n") + END, ""),
        (MODEL.replace(b"\r\n", b"\n"), ""),
        (b"", ""),
        (b"--b", ""),
        (b"--b--", ""),
        # Not all here yet.
        (MODEL, ""),
        (MODEL + b"--b", ""),
        (MODEL + b"--b\r", ""),
        (MODEL + b"--b\r\n", "yes"),
        (MODEL + b"--b-", ""),
    ],
)
def test_parts(body: bytes, model: str) -> None:
    assert multipart.read(body, b"b")[0] == model


@pytest.mark.parametrize(
    ("value", "stream"), [(b"true", True), (b"True", True), (b"1", True), (b"false", False)]
)
def test_stream(value: bytes, stream: bool) -> None:
    body = (
        FILE + b'--b\r\nContent-Disposition: form-data; name="stream"\r\n\r\n' + value + b"\r\n" + MODEL + END
    )
    assert multipart.read(body, b"b") == ("yes", stream)


@given(st.text(min_size=1, max_size=20).filter(str.isprintable), st.binary(max_size=40))
def test_with_model_changes_the_field_alone(model: str, audio: bytes) -> None:
    before, after = FILE.replace(b"\xff", audio.replace(b"\r", b"")), MODEL.replace(b"yes", b"other") + END
    changed = multipart.with_model(before + MODEL + after, b"b", model)
    assert changed == before + MODEL.replace(b"yes", model.encode()) + after


def test_a_parts_own_length_is_put_right() -> None:
    part = MODEL.replace(b"--b\r\n", b"--b\r\nContent-Length: 3\r\n")
    other = FILE.replace(b"\r\n\r\n", b"\r\nContent-Length: 3\r\n\r\n")
    changed = part.replace(b"3", b"6").replace(b"yes", b"longer")
    assert multipart.with_model(other + part + END, b"b", "longer") == other + changed + END
    assert multipart.with_model(other + END, b"b", "longer") == other + END


def test_the_value_that_is_read_is_the_one_that_is_changed() -> None:
    empty, other = MODEL.replace(b"yes", b" "), MODEL.replace(b"yes", b"other")
    changed = multipart.with_model(empty + MODEL + other + END, b"b", "new")
    assert changed == empty + MODEL.replace(b"yes", b"new") + other + END


def test_a_form_full_of_delimiters_costs_no_time() -> None:
    for piece in (b"\r\n--bx", b"\r\n--b\r\n", b"\r\n--b\r\nA: model\r\n\r\n"):
        started = time.process_time()
        assert multipart.read(b"--b\r\n" + piece * 300_000 + b"\r\n" + MODEL + END, b"b") == ("", False)
        assert time.process_time() - started < 0.1


def test_a_large_file_costs_little_time() -> None:
    body = FILE + b"--b\r\n\r\n" + os.urandom(8 << 20) + b"\r\n" + MODEL + END
    started = time.process_time()
    assert multipart.read(body, b"b") == ("yes", False)
    assert time.process_time() - started < 0.3


JSON = b"\r\nContent-Type: application/json"
FORM = TYPE + b"; boundary=b"


def test_either_kind_of_body_is_read_and_renamed() -> None:
    target = b"/v1/audio/transcriptions"
    form = FILE + MODEL + END
    assert openai_body.read(target, FORM, form) == ("yes", False, len(form) / multipart.BYTES_PER_TOKEN)
    assert openai_body.with_model(FORM, form, "new") == form.replace(b"yes", b"new")
    assert openai_body.read(target, JSON, b'\n {"model":"m"}')[0] == "m"
    assert openai_body.with_model(JSON, b'\n {"model":"m"}', "new") == b'{"model":"new"}'
    for beginning, fields, may in (
        (b"", JSON, True),
        (b"\n {", JSON, True),
        (b"[", JSON, False),
        (b"--b", FORM, True),
        (b"--b", FORM + b"\r\nContent-Encoding: gzip", False),
    ):
        assert openai_body.may_name_a_model(fields, beginning) is may


@pytest.mark.parametrize(
    ("coding", "encoded"),
    [
        (b"gzip", True),
        (b"identity", False),
        (b"Identity \r\nA: b", False),
        (b"identity, gzip", True),
        (b"br", True),
    ],
)
def test_an_encoded_body_is_not_read(coding: bytes, encoded: bool) -> None:
    fields = FORM + b"\r\ncontent-encoding: " + coding
    assert openai_body.is_encoded(fields) is encoded
    assert openai_body.work_by_size(fields, 3200) == (0.0 if encoded else 10.0)
    if encoded:
        with pytest.raises(BadRequestBody):
            openai_body.read(b"/v1/x", fields, MODEL + END)


@pytest.mark.parametrize("fill", [b";a", b"; a=b", b"\r\n x", b"\r\nA: b"])
def test_a_long_head_of_a_part_is_not_looked_at(fill: bytes) -> None:
    head = b'--b\r\nContent-Disposition: form-data; name="model"' + fill * (1 << 19)
    started = time.process_time()
    assert multipart.read(head + b"\r\n\r\nyes\r\n" + MODEL + END, b"b") == ("yes", False)
    assert multipart.read(head + b"\r\n\r\nno\r\n" + END, b"b") == ("", False)
    assert time.process_time() - started < 0.05


def test_many_long_heads_of_parts_cost_no_more() -> None:
    part = b"--b\r\nContent-Disposition: form-data; name=stream" + b";a" * 8000 + b"\r\n\r\n1\r\n"
    started = time.process_time()
    assert multipart.read(part * 500 + MODEL + END, b"b") == ("", True)
    assert time.process_time() - started < 0.25
