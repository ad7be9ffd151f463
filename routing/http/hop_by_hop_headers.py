"""Hop-by-hop headers of a request: read, checked and removed from what is forwarded.

RFC 9110 §7.6.1 lists what an intermediary removes; RFC 9112 §6 says what frames the body. The fields that the
proxy writes itself (Via, X-Forwarded-*, X-Request-Id) are read here and removed too, so that a client's copy
never stands beside ours. So are all others by which proxies tell a client's address or the target it asked
for: a replica that believes one would believe whoever writes it. A client key is meant for this hop as well:
the field that holds one is removed, whether keys are required or not, so that no key reaches a replica. Any
other credential is for the replica and is forwarded.
"""

import re

from routing.contract.client_keys import PREFIX
from routing.http.errors import RequestRefused
from routing.http.forwarded_fields import ForwardedFields
from routing.http.request_head import RequestHead
from routing.http.stray_keys import BASIC, KEY_BEGINS, holds_key, remove_stray_keys
from routing.http.syntax import HOST, LENGTH, members, without_fields
from routing.http.trace_context import TRACEPARENT

HANDLED = re.compile(
    rb"\r\n(authorization|c(?:ontent-length|onnection|f-connecting-ip(?:v6)?|lient-ip)|host"
    rb"|t(?:e|ra(?:nsfer-encoding|iler|ceparent)|rue-client-ip)|upgrade|keep-alive"
    rb"|proxy-(?:connection|authorization|client-ip)|expect|via|max-forwards|f(?:orwarded|astly-client-ip)"
    rb"|wl-proxy-client-ip"
    rb"|x-(?:a(?:pi-key|zure-(?:clientip|socketip)|ppengine-user-ip)|forwarded(?:-[^:\r]*+)?"
    rb"|re(?:quest-(?:id|timeout-ms)|al-ip|write-url|mote-(?:ip|addr))|switchyard-(?:fleet|replica|work)"
    rb"|origin(?:al-(?:url|host|forwarded-for)|ating-ip)|c(?:lient-ip|luster-client-ip)|true-client-ip"
    rb"|http-method(?:-override)?|method-override"
    rb"|envoy-(?:external-address|original-(?:path|host)))):"
    rb"[ \t]*+([^\r]*+)"
)
"""Alternatives that begin alike stand together: each line of each head is tried."""
CREDENTIAL_HEADERS = frozenset({b"authorization", b"x-api-key"})
"""Fields in which a client may present its key: OpenAI's clients the first, Anthropic's the second."""
CLIENT_KEY = re.compile(rb"(?:\A|[ \t,])(" + PREFIX.encode() + rb"[^ \t,]*+)")
"""Finds a client key in the value of such a field, behind whatever scheme it stands."""
REQUEST_ID = re.compile(rb"[\x21-\x7e]{1,128}+\Z")
WORK = re.compile(rb"(?=[0-9.]*[1-9])[0-9]{1,9}+(?:\.[0-9]{1,6}+)?\Z")
"""Above 0 and below a billion."""
_MILLISECONDS = re.compile(rb"0*+[1-9][0-9]{0,8}+\Z")
_NEVER_NOMINATED = frozenset({b"content-length", b"close", b"keep-alive"})
_DROPPED = frozenset(
    {
        *(b"te", b"trailer", b"keep-alive", b"proxy-connection", b"proxy-authorization"),
        *(b"x-real-ip", b"x-client-ip", b"x-cluster-client-ip", b"x-true-client-ip", b"x-originating-ip"),
        *(b"x-remote-ip", b"x-remote-addr", b"x-azure-clientip", b"x-azure-socketip", b"x-appengine-user-ip"),
        *(b"true-client-ip", b"client-ip", b"proxy-client-ip", b"wl-proxy-client-ip", b"fastly-client-ip"),
        *(b"cf-connecting-ip", b"cf-connecting-ipv6", b"x-envoy-external-address"),
        *(b"x-original-url", b"x-original-host", b"x-original-forwarded-for", b"x-rewrite-url"),
        *(b"x-envoy-original-path", b"x-envoy-original-host"),
        # What is open to a method is not open to the one that a server would take instead.
        *(b"x-http-method-override", b"x-http-method", b"x-method-override"),
    }
)
"""Whoever sends them, also a trusted proxy: it may well pass on what a client has written."""
_KEEP_ALIVE = (b"keep-alive", b"")
_TRACE = (b"traceparent", b"tracestate")


def read_hop_by_hop_headers(head: RequestHead, fields: bytes, has_host: bool) -> None:
    """Fill ``head`` from ``fields`` (each preceded by CRLF). ``has_host``: a valid Host stood before them.

    Raises :class:`RequestRefused`.
    """
    found = list(HANDLED.finditer(fields.lower()))
    kept = []
    position = 0
    rare: _RareFields | None = None
    length = -1
    for match in found:
        name, value = match.groups()
        start, end = match.span()
        if name == b"content-length":
            if length >= 0:
                raise RequestRefused(
                    400, "duplicate_content_length", "Content-Length is given more than once"
                )
            length = _content_length(value)
            continue
        if name == b"host":
            if has_host:
                raise RequestRefused(400, "duplicate_host", "the request has more than one Host field")
            has_host = True
            host = fields[match.start(2) : end].rstrip(b" \t")
            _check_host(host)
            # What stands in the target comes before it (RFC 9112 §3.2.2).
            head.host = head.host or host
        elif name in CREDENTIAL_HEADERS:
            credentials = fields[match.start(2) : end]
            key = CLIENT_KEY.search(credentials)
            if key is None:
                if not (credentials[:6].lower() == BASIC and holds_key(credentials)):
                    continue
            elif head.key is None:
                head.key = key[1]
        elif (
            name == b"traceparent"
            and head.trace is None
            and (trace := TRACEPARENT.match(fields[match.start(2) : end].rstrip(b" \t")))
        ):
            head.trace = trace[0]
            continue
        elif not (name in _DROPPED or (name == b"connection" and value in _KEEP_ALIVE)):
            if rare is None:
                rare = _RareFields(head)
            if rare.stays(name, fields[match.start(2) : end].rstrip(b" \t")):
                continue
        kept.append(fields[position:start])
        position = end
    if not has_host and head.minor == 1:
        raise RequestRefused(400, "missing_host", "an HTTP/1.1 request must have a Host field")
    if length > 0:
        head.content_length = length
    if kept:
        kept.append(fields[position:])
        fields = b"".join(kept)
    head.fields = fields if rare is None else rare.finish(fields, length >= 0)
    if KEY_BEGINS in head.fields or b"?" in head.target:
        remove_stray_keys(head)


def _content_length(value: bytes) -> int:
    digits = value.rstrip(b" \t")
    if LENGTH.match(digits) is None:
        raise RequestRefused(400, "bad_content_length", "Content-Length must be one decimal number")
    return int(digits)


def _check_host(value: bytes) -> None:
    if HOST.match(value) is None:
        raise RequestRefused(
            400, "bad_host", "the Host field is not a host name or address with an optional port"
        )


class _RareFields:
    """The rare fields of one head: those that few requests have, or have with an unusual value."""

    __slots__ = ("_head", "_nominated", "_transfer_encodings", "_upgrades", "_via")

    def __init__(self, head: RequestHead) -> None:
        self._head = head
        self._transfer_encodings: list[bytes] = []
        self._nominated: set[bytes] = set()
        self._upgrades: list[bytes] = []
        self._via: list[bytes] = []

    def stays(self, name: bytes, value: bytes) -> bool:
        """Take note of one field; whether it is forwarded as it is."""
        head = self._head
        if name == b"x-request-id":
            if REQUEST_ID.match(value):
                head.request_id = value
        elif name == b"x-request-timeout-ms":
            return self._time_limit(value)
        elif name == b"connection":
            self._connection(members(value))
        elif name == b"transfer-encoding":
            self._transfer_encodings.append(value.lower())
        elif name == b"forwarded" or name.startswith(b"x-forwarded"):
            if head.forwarded is None:
                head.forwarded = ForwardedFields()
            head.forwarded.add(name, value)
        elif name == b"via":
            self._via.append(value)
        elif name == b"upgrade":
            self._upgrades += members(value)
        elif name == b"x-switchyard-fleet":
            head.fleet = value
        elif name == b"x-switchyard-work":
            self._work(value)
        elif name == b"expect":
            if value.lower() != b"100-continue":
                raise RequestRefused(417, "unknown_expectation", "the only known expectation is 100-continue")
            head.expects_continue = head.minor == 1
        elif name == b"max-forwards":
            return self._max_forwards(value)
        elif name == b"traceparent":
            # Not valid, or a second one.
            self._nominated.update(_TRACE)
        return False

    def finish(self, fields: bytes, has_length: bool) -> bytes:
        """What is left of ``fields``; all of them have been seen."""
        head = self._head
        head.via = b", ".join(self._via) or None
        if head.forwarded is not None:
            head.forwarded.finish()
        if self._transfer_encodings:
            self._check_transfer_encoding(has_length)
        if b"traceparent" in self._nominated:
            head.trace = None
        head.upgrade = self._asks_for_web_socket()
        continued = head.via or head.forwarded or head.max_forwards >= 0 or head.upgrade
        head.plain = head.minor == 1 and not continued
        return without_fields(fields, self._nominated) if self._nominated else fields

    def _connection(self, options: list[bytes]) -> None:
        if b"close" in options:
            self._head.keep_alive = False
        # Framing is never nominated away: what was read by it must be forwarded by it.
        self._nominated.update(option for option in options if option not in _NEVER_NOMINATED)

    def _asks_for_web_socket(self) -> bool:
        """Any other protocol, and one asked for together with a body, is not taken up (RFC 9110 §7.8)."""
        head = self._head
        return (
            self._upgrades == [b"websocket"]
            and b"upgrade" in self._nominated
            and head.method == b"GET"
            and head.minor == 1
            and not (head.content_length or head.chunked)
        )

    def _time_limit(self, value: bytes) -> bool:
        if _MILLISECONDS.match(value) is None:
            words = "X-Request-Timeout-Ms must be a whole number of milliseconds, from 1 to 999999999"
            raise RequestRefused(400, "bad_request_timeout", words)
        self._head.time_limit_s = int(value) / 1000
        return True

    def _work(self, value: bytes) -> None:
        if self._head.work is not None or WORK.match(value) is None:
            words = "X-Switchyard-Work must be one decimal number above 0, below 1000000000"
            raise RequestRefused(400, "bad_work", words + ", with at most six decimals")
        self._head.work = float(value)

    def _max_forwards(self, value: bytes) -> bool:
        if self._head.method != b"OPTIONS":
            return True
        if not value.isdigit() or len(value) > 9 or self._head.max_forwards >= 0:
            raise RequestRefused(400, "bad_max_forwards", "Max-Forwards must be one decimal number")
        self._head.max_forwards = int(value)
        return False

    def _check_transfer_encoding(self, has_length: bool) -> None:
        if has_length:
            raise RequestRefused(
                400, "ambiguous_length", "Content-Length and Transfer-Encoding exclude each other"
            )
        if len(self._transfer_encodings) > 1:
            raise RequestRefused(
                400, "duplicate_transfer_encoding", "Transfer-Encoding is given more than once"
            )
        if self._transfer_encodings[0] != b"chunked":
            raise RequestRefused(
                501, "unknown_transfer_encoding", "the only known transfer coding is chunked"
            )
        if self._head.minor == 0:
            raise RequestRefused(400, "chunked_http_1_0", "an HTTP/1.0 request cannot be chunked")
        self._head.chunked = True
