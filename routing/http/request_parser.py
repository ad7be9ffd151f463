"""Request parser: a head is checked strictly before any connection is opened or any byte forwarded.

There are two paths to the same :class:`RequestHead`. The fast path: one pattern over the whole head
recognises what well-behaved clients send (origin-form, HTTP/1.1, no ``_`` in names). The slow path:
everything else is read line by line, where each rule has its own error. On both paths hop-by-hop fields are
removed (:mod:`routing.http.hop_by_hop_headers`); the rest is forwarded byte for byte.
"""

import re

from routing.http.errors import RequestRefused
from routing.http.hop_by_hop_headers import read_hop_by_hop_headers
from routing.http.limits import ConnectionLimits
from routing.http.request_head import RequestHead
from routing.http.syntax import FIELD_LINE, HOST, PLAIN_TOKEN, TEXT, TOKEN

_USUAL_HEAD = re.compile(
    rb"(" + PLAIN_TOKEN + rb"{1,64}+) (/[\x21\x22\x24-\x7e]*+) HTTP/1\.1"
    rb"(?:\r\n[Hh]ost: ([A-Za-z0-9.\-]++(?::[0-9]{1,5}+)?)(?=\r\n))?"
    rb"((?:\r\n" + PLAIN_TOKEN + rb"++:" + TEXT + rb"*+)*)\r\n\r\n"
)
_REQUEST_LINE = re.compile(rb"(" + TOKEN + rb"++) ([^ ]++) HTTP/([0-9])\.([0-9])\Z")
_TARGET = re.compile(rb"[\x21\x22\x24-\x7e]++\Z")
_ABSOLUTE = re.compile(rb"(?i:https?)://([^/?]*+)([^ ]*+)\Z")
_LINE_BESIDES_TARGET = 64
_LONGEST_METHOD = 64
_REFUSED_METHODS = frozenset({b"CONNECT", b"TRACE"})


def parse_request_head(data: bytes, start: int, end: int, limits: ConnectionLimits) -> RequestHead:
    """Read the head ``data[start:end + 4]``, whose empty line begins at ``end + 2``.

    Raises :class:`RequestRefused`.
    """
    if end - start > limits.max_head:
        raise head_too_large(data, start, limits)
    usual = _USUAL_HEAD.match(data, start)
    if usual is None:
        return _parse_line_by_line(data[start:end], limits)
    method, target, host, fields = usual.groups()
    if method in _REFUSED_METHODS:
        raise _method_refused(method)
    if len(target) > limits.max_target:
        raise _target_too_long(limits)
    # A field with its line end takes at least four bytes; a Host that stands first is not among them.
    if len(fields) >= 4 * limits.max_fields and (
        fields.count(b"\r\n") + (host is not None) > limits.max_fields
    ):
        raise _too_many_fields(limits)
    head = RequestHead(method, target, 1)
    if host is not None:
        head.host = host
    read_hop_by_hop_headers(head, fields, host is not None)
    return head


def _parse_line_by_line(block: bytes, limits: ConnectionLimits) -> RequestHead:
    lines = block.split(b"\r\n")
    head = _request_line(lines[0], limits)
    if len(lines) - 1 > limits.max_fields:
        raise _too_many_fields(limits)
    kept = []
    for line in lines[1:]:
        field = FIELD_LINE.match(line)
        if field is None:
            raise _bad_field(line)
        if b"_" not in field[1]:
            kept.append(b"\r\n" + line)
    read_hop_by_hop_headers(head, b"".join(kept), False)
    return head


def _request_line(line: bytes, limits: ConnectionLimits) -> RequestHead:
    matched = _REQUEST_LINE.match(line)
    if matched is None:
        raise RequestRefused(
            400, "bad_request_line", "the request line is not METHOD, target and HTTP version"
        )
    method, target, major, minor = matched.groups()
    if major != b"1" or minor not in b"01":
        raise RequestRefused(505, "bad_version", "only HTTP/1.1 and HTTP/1.0 are spoken here")
    if method in _REFUSED_METHODS:
        raise _method_refused(method)
    if len(method) > _LONGEST_METHOD:
        raise RequestRefused(
            501, "method_too_long", f"no method has a name of more than {_LONGEST_METHOD} characters"
        )
    if len(target) > limits.max_target:
        raise _target_too_long(limits)
    if _TARGET.match(target) is None:
        raise RequestRefused(
            400, "bad_target", "the request target holds a character that must be percent-encoded"
        )
    authority = b""
    if not target.startswith(b"/"):
        target, authority = _other_form(method, target)
    head = RequestHead(method, target, int(minor))
    head.host = authority
    return head


def _other_form(method: bytes, target: bytes) -> tuple[bytes, bytes]:
    """Origin-form and authority of an absolute-form target; ``*`` has none."""
    if target == b"*" and method == b"OPTIONS":
        return target, b""
    absolute = _ABSOLUTE.match(target)
    if absolute is None:
        raise RequestRefused(400, "bad_target", "the request target must begin with / or http://")
    authority, path = absolute.groups()
    if b"@" in authority:
        raise RequestRefused(400, "userinfo_in_target", "a user name in the request target is not accepted")
    if HOST.match(authority) is None:
        raise RequestRefused(400, "bad_target", "the host in the request target is not valid")
    if not path and method == b"OPTIONS":
        return b"*", authority
    return (path if path.startswith(b"/") else b"/" + path), authority


def head_too_large(data: bytes | bytearray, start: int, limits: ConnectionLimits) -> RequestRefused:
    """The error for a head that begins at ``start`` and is too long, complete or not."""
    if data.find(b"\r\n", start, start + limits.max_target + _LINE_BESIDES_TARGET) < 0:
        return _target_too_long(limits)
    return RequestRefused(431, "head_too_large", f"the request head is longer than {limits.max_head} bytes")


def _bad_field(line: bytes) -> RequestRefused:
    if line[:1] in (b" ", b"\t"):
        return RequestRefused(400, "folded_field", "a field line must not begin with a space")
    return RequestRefused(400, "bad_field", "a field line is not name, colon and value in valid characters")


def _method_refused(method: bytes) -> RequestRefused:
    return RequestRefused(405, "method_refused", f"{method.decode()} is not forwarded")


def _target_too_long(limits: ConnectionLimits) -> RequestRefused:
    return RequestRefused(
        414, "target_too_long", f"the request target is longer than {limits.max_target} bytes"
    )


def _too_many_fields(limits: ConnectionLimits) -> RequestRefused:
    return RequestRefused(431, "too_many_fields", f"the request has more than {limits.max_fields} fields")
