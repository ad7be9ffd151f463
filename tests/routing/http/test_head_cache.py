"""Head templates: what one recognises is read as the whole check reads it, and nothing is recognised that
the whole check refuses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.http.errors import RequestRefused
from routing.http.head_cache import MAX_CACHED_HEAD, HeadTemplate, build_template
from routing.http.limits import ConnectionLimits
from routing.http.request_head import RequestHead
from routing.http.request_parser import parse_request_head

USUAL = (
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: a.test\r\nX-Request-Id: one\r\n"
    b"Content-Type: application/json\r\nContent-Length: 12\r\nX-Step: aa-bb-01\r\n"
    b"TraceParent: 00-7b7b7b7b7b7b7b7b7b7b7b7b7b7b7b7b-8c8c8c8c8c8c8c8c-01\r\n\r\n"
)
BEFORE = USUAL.replace(b"one", b"null").replace(b"12", b"0").replace(b"bb", b"zz").replace(b"8c-01", b"8d-01")


def parse(head: bytes) -> RequestHead:
    return parse_request_head(head, 0, head.find(b"\r\n\r\n"), ConnectionLimits())


def template(text: bytes, before: bytes = BEFORE, older: HeadTemplate | None = None) -> HeadTemplate | None:
    return build_template(text, parse(text), before, older, ConnectionLimits())


def what(head: RequestHead) -> dict[str, object]:
    return {name: getattr(head, name) for name in RequestHead.__slots__}


def test_other_values_give_another_head_with_the_same_note() -> None:
    known = parse(USUAL)
    known.route = route = object()
    made = build_template(USUAL, known, BEFORE, None, ConnectionLimits())
    assert made is not None
    other = USUAL.replace(b"one", b"two").replace(b"12", b"4711").replace(b"aa-bb", b"cc-dd")
    other = other.replace(b"00-7b7b", b"00-9d9d")
    head = made.recognise(b"before" + other + b"body", 6)
    assert head is not None
    assert made.end == 6 + len(other)
    assert head.route is route
    head.route = None
    assert what(head) == what(parse(other))
    assert (head.content_length, head.request_id) == (4711, b"two")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"12", b""),
        (b"12", b"-1"),
        (b"12", b"+1"),
        (b"12", b"1 "),
        (b"12", b"1,1"),
        (b"12", b"\xb2"),
        (b"12", b"1" * 19),
        (b"one", b""),
        (b"one", b"a b"),
        (b"one", b"x" * 129),
        (b"one", b"a\nb"),
        (b"bb-01", b"\x00"),
        (b"bb-01", b"a\rb"),
        (b"bb-01", b"a\nContent-Length: 3"),
        (b"bb-01", b"a\r\nContent-Length: 3"),
        (b"bb-01", b"a" * MAX_CACHED_HEAD),
        (b"00-7b7b", b"00-7b7"),
        (b"00-7b7b", b"00-7B7b"),
        (b"8c-01", b"8c-01-more"),
        (b"8c-01", b"8c-01\r\nTraceParent: 1"),
        (b"a.test", b"b.test"),
        (b"POST", b"PUT"),
        (b"\r\n\r\n", b"\r\n"),
        (b"Content-Length", b"content-length"),
    ],
)
def test_what_is_not_alike_is_left_to_the_whole_check(old: bytes, new: bytes) -> None:
    made = template(USUAL)
    assert made is not None
    assert made.recognise(USUAL.replace(old, new), 0) is None
    assert made.recognise(USUAL, 0) is not None


STATED = USUAL.replace(b"\r\nContent-Type", b"\r\nX-Switchyard-Work: 12.5\r\nContent-Type")


def test_stated_work_is_read_from_each_head_and_not_forwarded() -> None:
    """Also if it was the same in the two heads that the template is made of: it is never fixed."""
    for before in (STATED.replace(b"one", b"two"), STATED.replace(b"12.5", b"7"), USUAL):
        made = template(STATED, before)
        assert made is not None
        for value in (b"1", b"12.5", b"999999999.999999"):
            other = STATED.replace(b"12.5", value)
            head = made.recognise(other, 0)
            assert head is not None
            assert what(head) == what(parse(other))
            assert (head.work, b"work" in head.fields.lower()) == (float(value), False)


@pytest.mark.parametrize("value", [b"", b"0", b"-1", b"1e3", b"1000000000", b"1 ", b"00-7b-8c-01", b"nan"])
def test_no_head_with_other_work_is_recognised(value: bytes) -> None:
    made = template(STATED, STATED.replace(b"12.5", b"7"))
    assert made is not None
    assert made.recognise(STATED.replace(b"12.5", value), 0) is None
    assert made.recognise(USUAL, 0) is None
    without = template(USUAL)
    assert without is not None
    assert without.recognise(STATED, 0) is None


def test_an_incomplete_head_is_not_recognised() -> None:
    made = template(USUAL)
    assert made is not None
    assert all(made.recognise(USUAL[:size], 0) is None for size in range(len(USUAL)))


@pytest.mark.parametrize(
    "line",
    [
        b"Via: 1.1 other",
        b"X-Forwarded-For: 1.2.3.4",
        b"Expect: 100-continue",
        b"X-Switchyard-Fleet: m",
        b"TraceParent: 00-twice-00-00",
        b"X-Request-Id:",
    ],
)
def test_heads_with_more_to_them_have_no_template(line: bytes) -> None:
    more = b"\r\n" + line + b"\r\nHost"
    assert template(USUAL.replace(b"\r\nHost", more), BEFORE.replace(b"\r\nHost", more)) is None


@pytest.mark.parametrize("name", [b"Host", b"Connection", b"TE", b"Keep-Alive", b"Upgrade"])
def test_what_this_hop_acts_upon_is_no_hole(name: bytes) -> None:
    host = b"" if name == b"Host" else b"Host: a.test\r\n"
    head = b"GET / HTTP/1.1\r\n%bAccept: one\r\n%b: %b\r\n\r\n"
    assert template(head % (host, name, b"one"), head % (host, name, b"two")) is None
    assert (
        template(head % (host, name, b"one"), head.replace(b"one", b"two") % (host, name, b"one")) is not None
    )


def test_what_two_heads_have_in_common_is_fixed_and_what_once_varied_is_not() -> None:
    other_id, other_length = USUAL.replace(b"one", b"two"), USUAL.replace(b"12", b"13")
    by_id = template(other_id, USUAL)
    assert by_id is not None
    assert by_id.names == {b"x-request-id"}
    head = by_id.recognise(USUAL, 0)
    assert head is not None
    assert what(head) == what(parse(USUAL))
    assert by_id.recognise(other_length, 0) is None
    by_both = template(other_length, USUAL, by_id)
    assert by_both is not None
    assert by_both.names == {b"x-request-id", b"content-length"}
    assert by_both.recognise(other_id, 0) is not None


def test_the_same_head_again_has_no_template() -> None:
    assert template(USUAL, USUAL) is None


def test_what_connection_names_is_cut_out_of_the_next_head_too() -> None:
    text = USUAL.replace(b"Host", b"Connection: x-step\r\nHost")
    made = template(text, BEFORE.replace(b"Host", b"Connection: x-step\r\nHost"))
    assert made is not None
    head = made.recognise(text.replace(b"aa-bb", b"secret"), 0)
    assert head is not None
    assert b"secret" not in head.fields


KEYED = USUAL.replace(b"X-Step: aa-bb-01", b"%b")


@pytest.mark.parametrize("field", [b"Authorization: Bearer %b", b"x-api-key: %b"])
def test_a_client_key_may_vary_and_is_seen_in_each_head(field: bytes) -> None:
    first, second, third = (KEYED % (field % key) for key in (b"sy-one", b"sy-two", b"sy-three"))
    made = template(second, first)
    assert made is not None
    head = made.recognise(third, 0)
    assert head is not None
    assert head.key == b"sy-three"
    assert what(head) == what(parse(third))
    for value in (b"its-own", b"", b"asy-one"):
        assert made.recognise(KEYED % (field % value), 0) is None


def test_a_replicas_own_credential_may_vary_and_is_no_client_key() -> None:
    field = b"Authorization: Bearer %b"
    first, second, third = (KEYED % (field % value) for value in (b"one", b"two", b"three"))
    made = template(second, first)
    assert made is not None
    head = made.recognise(third, 0)
    assert head is not None
    assert head.key is None
    assert what(head) == what(parse(third))
    assert made.recognise(KEYED % (field % b"sy-one"), 0) is None


def test_with_two_credentials_neither_may_vary() -> None:
    heads = [KEYED % (b"Authorization: Bearer sy-a\r\nx-api-key: " + key) for key in (b"sy-one", b"sy-two")]
    assert template(heads[1], heads[0]) is None


LINES = [
    b"content-length:%b",
    b"Content-Length: %b",
    b"X-Request-Id: %b",
    b"x-request-id:\t%b",
    b"traceparent: %b",
    b"Tracestate:%b",
    b"Idempotency-Key:  %b",
    b"X_Under: 1",
    b"X-Content-Length: 3",
    b"Authorization: Bearer %b",
    b"authorization: %b",
    b"X-Api-Key: %b",
    b"Connection: close",
    b"Connection: authorization",
    b"Connection: idempotency-key, content-length",
    b"Accept: */*",
    b"Transfer-Encoding: chunked",
]
VALUES = st.sampled_from(
    [
        *(b"1", b"22", b"", b" 3", b"4 ", b"abc", b"a\tb", b"\xff", b"0", b"x-y", b"1\r\nA: 2"),
        *(b"sy-1", b"sy-22", b"a sy-3", b"sy-4\t", b"asy-5"),
    ]
)


@given(
    lines=st.lists(st.sampled_from(LINES), max_size=6),
    first=st.lists(VALUES, min_size=6, max_size=6),
    second=st.lists(VALUES, min_size=6, max_size=6),
    third=st.lists(VALUES, min_size=6, max_size=6),
)
def test_recognised_heads_are_read_as_the_whole_check_reads_them(
    lines: list[bytes], first: list[bytes], second: list[bytes], third: list[bytes]
) -> None:
    def head(values: list[bytes]) -> bytes:
        filled = [line.replace(b"%b", value) for line, value in zip(lines, values, strict=False)]
        return b"\r\n".join([b"POST /v1/x HTTP/1.1", b"Host: h", *filled]) + b"\r\n\r\n"

    known, other = head(first), head(second)
    try:
        parse(before := head(third))
        made = template(known, before)
    except RequestRefused:
        return
    if made is None:
        return
    found = made.recognise(other, 0)
    if found is not None:
        assert what(found) == what(parse(other))
        assert made.end == len(other)
