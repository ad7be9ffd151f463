"""Head cache: recognises a request head that was checked before, but for values that differ each time.

Theory. A client repeats its head except for a few values: the body's length, an id, a trace. The checked head
is cut at these values into fixed bytes and *holes*. A later head would be parsed alike if it has the same
fixed bytes, and in each hole a value in that field's grammar: no hole can hold a line end, so every field has
the same name at the same position, and no rule looks at two of these values together. So only the bytes of
the holes need a check. Any other head is checked as a whole.

Of the fields that this hop acts upon, only these can be holes: Content-Length, X-Request-Id, Traceparent,
X-Switchyard-Work, and the field with the client's credential. If the checked head had a client key, which is
removed, the later one must have one too; if it had none, the later one must have none.

Source: partial templates as in differential deserialization (Suzumura, Takase and Tatsubori, "Optimizing
Web Services Performance by Differential Deserialization", ICWS 2005), for one line-based grammar.
"""

from __future__ import annotations

import re
from typing import Final

from routing.http.hop_by_hop_headers import CLIENT_KEY, CREDENTIAL_HEADERS, HANDLED, REQUEST_ID, WORK
from routing.http.limits import ConnectionLimits
from routing.http.request_head import RequestHead
from routing.http.stray_keys import BASIC, KEY_BEGINS
from routing.http.syntax import LENGTH, TEXT
from routing.http.trace_context import TRACEPARENT

MAX_CACHED_HEAD: Final = 4096
"""Bytes of a head that is worth keeping."""

_FIELD: Final = re.compile(rb"\r\n([^:\r]++):[ \t]*+([^\r]*+)")
_DIGITS: Final = 0
_ID: Final = 1
_TEXT: Final = 2
_KEY: Final = 3
_NO_KEY: Final = 4
_TRACE: Final = 5
_WORK: Final = 6
_WORK_FIELD: Final = b"x-switchyard-work"
_KINDS: Final = {
    b"content-length": _DIGITS,
    b"x-request-id": _ID,
    b"traceparent": _TRACE,
    _WORK_FIELD: _WORK,
}
_TEXT_VALUE: Final = re.compile(TEXT + rb"*+\Z")


class HeadTemplate:
    """One checked head, as a template for similar ones. :meth:`recognise` leaves in ``end`` where the head
    ended."""

    __slots__ = ("_before", "_fields", "_head", "_holes", "_longest", "_size", "end", "names")

    def __init__(
        self, head: RequestHead, before: bytes, holes: list[_Hole], fields: bytes, limits: ConnectionLimits
    ) -> None:
        self._head = head
        self._before = before
        """Up to the first hole."""
        self._size = len(before)
        self._holes = holes
        self._fields = fields
        """To forward, up to the first hole that is forwarded."""
        self._longest = min(MAX_CACHED_HEAD, limits.max_head)
        self.end = 0
        self.names: frozenset[bytes] = frozenset()
        """Of the fields whose values are holes, in lower case."""

    def recognise(self, data: bytes, start: int) -> RequestHead | None:
        """The head that begins at ``data[start]``; ``None``: not complete, or not alike."""
        if not data.startswith(self._before, start):
            return None
        known = self._head
        head = RequestHead(known.method, known.target, 1)
        head.content_length = known.content_length
        head.request_id = known.request_id
        head.key = known.key
        head.host = known.host
        head.trace = known.trace
        fields = self._fields
        position = start + self._size
        for kind, after, size, forwarded in self._holes:
            end = data.find(b"\r", position)
            if end < 0 or not data.startswith(after, end):
                return None
            value = data[position:end]
            if kind == _DIGITS:
                if LENGTH.match(value) is None:
                    return None
                head.content_length = int(value)
            elif kind == _ID:
                if REQUEST_ID.match(value) is None:
                    return None
                head.request_id = value
            elif kind >= _TRACE:
                if kind == _WORK:
                    if WORK.match(value) is None:
                        return None
                    head.work = float(value)
                else:
                    if TRACEPARENT.match(value) is None:
                        return None
                    head.trace = value
            elif _TEXT_VALUE.match(value) is None:
                return None
            elif kind != _TEXT:
                key = CLIENT_KEY.search(value)
                if (key is None) == (kind == _KEY) or (key is None and value[:6].lower() == BASIC):
                    return None
                head.key = key and key[1]
            elif KEY_BEGINS in value:
                # What may be a stray key takes the careful path.
                return None
            if forwarded is not None:
                fields += value + forwarded
            position = end + size
        if position - start > self._longest:
            return None
        head.fields = fields
        head.keep_alive = known.keep_alive
        head.time_limit_s = known.time_limit_s
        head.route = known.route
        self.end = position
        return head


_Hole = tuple[int, bytes, int, bytes | None]
"""Kind; the fixed bytes from its end to the next one, and how many; what is forwarded behind it up to the
next one that is forwarded, ``None`` where it is not forwarded itself."""


def build_template(
    text: bytes, head: RequestHead, before: bytes, older: HeadTemplate | None, limits: ConnectionLimits
) -> HeadTemplate | None:
    """For heads like ``text``, which was read as ``head``.

    Holes are values in which it differs from ``before``, the head that came before it, and those of an
    ``older`` template; others are taken for fixed. ``None`` where it is not a plain head, or has no hole.
    """
    if head.minor != 1 or head.chunked or head.expects_continue or not head.plain or head.fleet is not None:
        return None
    lowered = text.lower()
    fields = list(_FIELD.finditer(lowered))
    names = [match[1] for match in fields]
    if (b"x-request-id" in names) != (head.request_id is not None):
        return None
    if (b"traceparent" in names) != (head.trace is not None):
        return None
    # Stated work is always a hole: others pay nothing for a value that a template might have fixed.
    varied = frozenset((_WORK_FIELD,)) if older is None else older.names | {_WORK_FIELD}
    found = [
        match
        for match in fields
        if match[1] in varied or text[match.start() : match.end()] + b"\r\n" not in before
    ]
    if not all(_may_vary(match, names) for match in found) or not found:
        return None
    ends = [match.start(2) for match in found[1:]] + [len(text)]
    cuts = _cuts(text, found, head.fields)
    holes: list[_Hole] = []
    for match, end, at in zip(found, ends, cuts, strict=True):
        after = text[match.end() : end]
        forwarded = None
        if at >= 0:
            next_cut = min((cut for cut in cuts if cut > at), default=len(head.fields))
            forwarded = head.fields[at + len(match[2]) : next_cut]
        holes.append((_kind(match[1], head), after, len(after), forwarded))
    first = min((cut for cut in cuts if cut >= 0), default=len(head.fields))
    template = HeadTemplate(head, text[: found[0].start(2)], holes, head.fields[:first], limits)
    template.names = frozenset(match[1] for match in found)
    return template


def _may_vary(field: re.Match[bytes], names: list[bytes]) -> bool:
    """Whether a field, one of ``names``, may be a hole."""
    name = field[1]
    if name in CREDENTIAL_HEADERS:
        return sum(one in CREDENTIAL_HEADERS for one in names) == 1
    return names.count(name) == 1 and (name in _KINDS or HANDLED.match(field[0]) is None)


def _kind(name: bytes, head: RequestHead) -> int:
    if name in CREDENTIAL_HEADERS:
        return _NO_KEY if head.key is None else _KEY
    return _KINDS.get(name, _TEXT)


def _cuts(text: bytes, found: list[re.Match[bytes]], fields: bytes) -> list[int]:
    """Where each value begins in the fields that are forwarded; −1: it is not forwarded."""
    cuts = []
    for match in found:
        name_and_space = text[match.start() : match.start(2)]
        at = fields.find(name_and_space)
        cuts.append(at + len(name_and_space) if at >= 0 else -1)
    return cuts
