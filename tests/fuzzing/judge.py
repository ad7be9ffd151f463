"""What the proxy did with some bytes, held against how h11 reads them.

The rule for requests: whatever a client sends is refused, or reaches the replica as exactly one request that
h11 reads as it read the client's. For responses, the same the other way round.
"""

import asyncio
import re
from collections import Counter
from random import Random

from routing.http.upstream_connection import UpstreamConnection
from tests.fuzzing.generate import KNOWN, pieces
from tests.fuzzing.reader import Message, Reading, RequestReader, read_answer, read_requests
from tests.fuzzing.wire import Transport, Wire

MOST = 6
"""Connections to the replica kept ready: more than there are requests or tries."""
ANSWER = KNOWN + b"ok"
SWITCHED = b"HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
ASKED_TO_SWITCH = (b"upgrade", b"websocket")

HOP = frozenset(
    b"connection keep-alive proxy-connection proxy-authorization proxy-authenticate te trailer "
    b"transfer-encoding upgrade".split()
)
REQUEST_FRAMING = frozenset((b"content-length", b"host", b"expect"))
READ_BY_PROXY = frozenset((b"x-switchyard-fleet", b"x-switchyard-replica", b"x-switchyard-work"))
WRITTEN_BY_PROXY = (b"x-forwarded-for", b"x-forwarded-proto", b"x-request-id", b"via", b"traceparent")
MADE_UP = re.compile(
    rb"(?:x-forwarded(?:-.*)?|forwarded|(?:(?:true|proxy|wl-proxy|fastly)-)?client-ip|cf-connecting-ip(?:v6)?"
    rb"|x-(?:real|client|cluster-client|true-client|originating|remote|appengine-user)-ip|x-remote-addr"
    rb"|x-azure-(?:clientip|socketip)|x-envoy-(?:external-address|original-path|original-host)"
    rb"|x-original-(?:url|host|forwarded-for)|x-rewrite-url|x-http-method(?:-override)?|x-method-override)\Z"
)
"""What a client says about itself, or about another target than the one it asks for."""
RESPONSE_DROPPED = HOP | {
    *(b"content-length", b"x-request-id", b"x-switchyard-replica"),
    *(b"x-switchyard-retries", b"x-switchyard-retry-reason"),
    *(b"x-switchyard-fleet", b"x-switchyard-model", b"x-switchyard-fallback"),
}
NEVER_NOMINATED = frozenset((b"content-length", b"close", b"keep-alive"))

SPACE_BEFORE_EXTENSION = re.compile(r"illegal chunk header: bytearray\(b['\"][0-9A-Fa-f]+[ \\t]+;")
IN_TRAILERS = re.compile("Content-Length|Transfer-Encoding")


def h11_is_stricter(reading: Reading) -> bool:
    """It refuses whitespace before a chunk's extension, which RFC 9112 §7.1.1 tells recipients to remove, and
    framing fields of a trailer section, which are to be ignored (RFC 9110 §6.5.1)."""
    if SPACE_BEFORE_EXTENSION.search(reading.refused):
        return True
    in_body = bool(reading.messages) and not reading.messages[-1].complete
    return in_body and IN_TRAILERS.search(reading.refused) is not None


def judge_requests(wire: Wire, random: Random, sent: bytes, counts: Counter[str]) -> str:
    """Sends it as a client would; what is wrong with what became of it, or nothing."""
    expected = read_requests(sent)
    switches = random.random() < 0.5
    replicas = [ReadingReplica(*one, switches) for one in wire.replicas(MOST)]
    client, transport = wire.client()
    for piece in pieces(random, sent):
        if transport.ended:
            break
        client.data_received(piece)  # type: ignore[attr-defined]
        wire.settle()
        while sum(replica.answers() for replica in replicas):
            wire.settle()
    client.connection_lost(None)  # type: ignore[attr-defined]
    wire.settle()
    problems = [problem for replica in replicas if (problem := replica.closed())]
    if problems:
        return problems[0]
    seen = [request for replica in replicas for request in replica.seen]
    counts["forwarded"] += len(seen)
    for replica in replicas:
        if replica.has_switched:
            counts["switched"] += 1
            if not sent.endswith(replica.tunnelled):
                return f"through the tunnel came {replica.tunnelled!r}"
    if h11_is_stricter(expected):
        return ""
    return _compare_requests(seen, expected) or _check_answers(transport, expected, counts)


class ReadingReplica:
    """One connection of a replica that reads with h11 and answers what is complete."""

    def __init__(self, upstream: UpstreamConnection, transport: Transport, switches: bool) -> None:
        self._upstream = upstream
        self._transport = transport
        self._switches = switches
        self._reader = RequestReader()
        self._read = self._answered = self._tunnel_at = 0

    @property
    def seen(self) -> list[Message]:
        """The last one may be incomplete."""
        return self._reader.messages

    @property
    def has_switched(self) -> bool:
        return self._tunnel_at > 0

    @property
    def tunnelled(self) -> bytes:
        """What came behind the request for a WebSocket."""
        return bytes(self._transport.written[self._tunnel_at :])

    def answers(self) -> bool:
        """Whether there was a request to answer."""
        written = self._transport.written
        if self.has_switched or len(written) == self._read:
            return False
        self._reader.feed(bytes(written[self._read :]))
        self._read = len(written)
        if not self.seen or not self.seen[-1].complete or len(self.seen) == self._answered:
            return False
        self._answered = len(self.seen)
        if self._switches and ASKED_TO_SWITCH in self.seen[-1].fields:
            self._tunnel_at = len(written)
            self._upstream.data_received(SWITCHED)
        else:
            self._upstream.data_received(ANSWER)
        return True

    def closed(self) -> str:
        """The client is gone: what is wrong with what came here."""
        if not self.has_switched:
            self._reader.feed(bytes(self._transport.written[self._read :]))
        self._upstream.connection_lost(None)
        if self._reader.refused or self._reader.waits_for_more:
            written = bytes(self._transport.written)
            return f"a replica cannot read what was forwarded: {self._reader.refused} {written!r}"
        if any(not one.complete for one in self.seen) and not self._transport.aborted:
            return "a request that was begun is neither complete nor aborted"
        return ""


def _compare_requests(seen: list[Message], expected: Reading) -> str:
    ours = [(message, _end_to_end_of_request(message)) for message in expected.messages]
    at = 0
    for message in seen:
        got = (message.start, _arrived(message))
        while at < len(ours) and not _same(message, got, ours[at]):
            at += 1
        if at == len(ours):
            return f"h11 does not read this request in what was sent: {message}"
        at += 1
        problem = _check_own_fields(message)
        if problem:
            return problem
    return ""


def _same(
    message: Message,
    got: tuple[tuple[bytes, bytes], list[tuple[bytes, bytes]]],
    other: tuple[Message, tuple[tuple[bytes, bytes], list[tuple[bytes, bytes]]]],
) -> bool:
    original, wanted = other
    if got != wanted or (message.complete and not original.complete):
        return False
    return message.body == original.body if message.complete else original.body.startswith(message.body)


def _end_to_end_of_request(message: Message) -> tuple[tuple[bytes, bytes], list[tuple[bytes, bytes]]]:
    """Method, target and fields that must arrive, by the RFC and by what the proxy promises."""
    method, target = message.start
    absolute = re.match(rb"(?i:https?)://[^/?]*(.*)", target)
    if absolute is not None:
        target = absolute[1]
        if not target and method == b"OPTIONS":
            target = b"*"
        elif not target.startswith(b"/"):
            target = b"/" + target
    target = re.sub(rb"^/fleets/[^/?]*/?", b"/", target)
    dropped = HOP | REQUEST_FRAMING | set(WRITTEN_BY_PROXY) | _nominated(message)
    kept = []
    for name, value in message.fields:
        if name in dropped or b"_" in name or name in READ_BY_PROXY or MADE_UP.match(name):
            continue
        if name in (b"authorization", b"x-api-key") and re.search(rb"(?:^|[ \t,])sy-", value):
            continue
        if name == b"max-forwards" and method == b"OPTIONS":
            continue
        kept.append((name, value))
    return (method, target), kept


def _arrived(message: Message) -> list[tuple[bytes, bytes]]:
    dropped = REQUEST_FRAMING | set(WRITTEN_BY_PROXY) | {b"transfer-encoding"}
    if message.start[0] == b"OPTIONS":
        dropped |= {b"max-forwards"}
    if (b"upgrade", b"websocket") in message.fields:
        dropped |= {b"upgrade", b"connection"}
    return [one for one in message.fields if one[0] not in dropped]


def _check_own_fields(message: Message) -> str:
    names = [name for name, _ in message.fields]
    for name in (*WRITTEN_BY_PROXY, b"host"):
        if names.count(name) != 1:
            return f"{name.decode()} stands {names.count(name)} times in what was forwarded: {message}"
    if [value for name, value in message.fields if name in (b"connection", b"upgrade")] not in (
        [],
        [b"Upgrade", b"websocket"],
    ):
        return f"fields of this hop were forwarded: {message}"
    if names.count(b"content-length") + names.count(b"transfer-encoding") > 1:
        return f"the length of what was forwarded is given twice: {message}"
    return ""


def _nominated(message: Message) -> set[bytes]:
    options = {
        option.strip(b" \t").lower()
        for name, value in message.fields
        if name == b"connection"
        for option in value.split(b",")
    }
    return options - NEVER_NOMINATED


def _check_answers(transport: Transport, expected: Reading, counts: Counter[str]) -> str:
    """The client can read all answers, each to its request."""
    rest = bytes(transport.written).replace(b"HTTP/1.1 100 Continue\r\n\r\n", b"")
    rest, switched, fields = rest.partition(b"HTTP/1.1 101 ")
    if switched and (not fields.endswith(b"\r\n\r\n") or b"\r\nUpgrade: websocket\r\n" not in fields):
        return f"the client cannot read that protocols were switched: {fields!r}"
    methods = [message.start[0] for message in expected.messages]
    # A head that h11 refuses too is answered as what it seems to be.
    last = b"HEAD" if expected.rest.startswith(b"HEAD ") else b"GET"
    while rest:
        method = methods.pop(0) if methods else last
        reading = read_answer(method, rest, transport.ended)
        if reading.refused or not reading.messages or not reading.messages[0].complete:
            return f"the client cannot read its answers: {reading.refused or rest!r}"
        if reading.messages[0].start[0] >= b"400":
            counts["refused"] += 1
        rest = reading.rest
        if rest and not reading.messages[0].may_go_on:
            return "something follows the last answer"
    return ""


def judge_response(wire: Wire, random: Random, sent: bytes, counts: Counter[str]) -> str:
    """Answers one request with it, as a replica would; what is wrong with what became of it, or nothing."""
    method = random.choice((b"GET", b"GET", b"POST", b"HEAD"))
    minor = 0 if random.random() < 0.15 else 1
    ends = random.random() < 0.5
    upstreams = wire.replicas(MOST)
    client, transport = wire.client()
    if random.random() < 0.3:
        _warm(wire, client, transport, *upstreams[0])
    length = b"Content-Length: 2\r\n\r\nhi" if method == b"POST" else b"\r\n"
    client.data_received(  # type: ignore[attr-defined]
        b"%b /a HTTP/1.%d\r\nHost: a.test\r\n%b" % (method, minor, length)
    )
    wire.settle()
    last = None
    for upstream, link in upstreams:
        if not link.written:
            break
        last = upstream
        for piece in pieces(random, sent):
            if link.ended:
                break
            upstream.data_received(piece)
            wire.settle()
        if ends and not link.ended:
            upstream.eof_received()
            upstream.connection_lost(None)
            link.ended = True
            wire.settle()
    kept = last is not None and wire.is_idle(last)
    expected = read_answer(method, sent, ends)
    problem = _compare_answers(transport, method, minor, expected, kept, counts)
    client.connection_lost(None)  # type: ignore[attr-defined]
    for upstream, _ in upstreams:
        upstream.connection_lost(None)
    wire.settle()
    return problem


def _warm(
    wire: Wire, client: asyncio.Protocol, transport: Transport, upstream: UpstreamConnection, link: Transport
) -> None:
    """Both connections have served a request before: their heads are known."""
    client.data_received(b"GET /a HTTP/1.1\r\nHost: a.test\r\n\r\n")  # type: ignore[attr-defined]
    wire.settle()
    upstream.data_received(ANSWER)
    wire.settle()
    transport.written.clear()
    link.written.clear()


def _compare_answers(
    transport: Transport, method: bytes, minor: int, expected: Reading, kept: bool, counts: Counter[str]
) -> str:
    written = bytes(transport.written)
    got = read_answer(method, written, transport.ended)
    message = got.messages[0] if got.messages else None
    if message is None:
        if got.refused and not transport.aborted:
            return f"the client cannot read its answer: {got.refused}"
        return "an interim response to an HTTP/1.0 client" if minor == 0 and written else ""
    if got.refused and not transport.aborted:
        return f"the client cannot read its answer: {got.refused}"
    if got.rest and not transport.aborted:
        return f"something follows the answer: {got.rest!r}"
    if not any(name == b"x-switchyard-replica" for name, _ in message.fields):
        counts["refused"] += 1
        return "" if message.complete else "an error of the proxy's own is incomplete"
    if not expected.messages:
        return f"the client was given an answer that h11 cannot read: {expected.refused}"
    if h11_is_stricter(expected):
        return ""
    original = expected.messages[0]
    truncated = transport.aborted or not message.complete
    counts["cut off" if truncated else "forwarded"] += 1
    if message.start != original.start:
        return f"status {message.start[0]!r} where h11 reads {original.start[0]!r}"
    if not truncated and (not original.complete or message.body != original.body):
        return f"body {message.body!r} where h11 reads {original.body!r} {expected.refused}"
    if truncated and not original.body.startswith(message.body):
        return "a cut body differs from what h11 reads"
    wanted, arrived = _response_fields(original), _client_fields(message)
    if not any(name == b"date" for name, _ in original.fields):
        # As RFC 9110 §6.6.1 asks of whoever passes on such an answer.
        arrived = [one for one in arrived if one[0] != b"date"]
    if wanted != arrived:
        return f"fields differ: {arrived}, wanted {wanted}"
    if minor == 1 and original.informational != message.informational:
        return f"interim responses differ: {message.informational}, {original.informational}"
    if minor == 0 and (message.informational or any(n == b"transfer-encoding" for n, _ in message.fields)):
        return "an HTTP/1.0 client was sent an interim response or chunks"
    if kept and (expected.rest or not original.complete or not original.may_go_on):
        return f"a connection is kept that must not be used again; behind the answer: {expected.rest!r}"
    return ""


def _response_fields(message: Message) -> list[tuple[bytes, bytes]]:
    dropped = RESPONSE_DROPPED | _nominated(message)
    return [one for one in message.fields if one[0] not in dropped]


def _client_fields(message: Message) -> list[tuple[bytes, bytes]]:
    """Less what the proxy adds: Via stands behind the replica's own, the others are ours alone."""
    fields = [one for one in message.fields if one[0] not in RESPONSE_DROPPED]
    fields.reverse()
    fields.remove((b"via", b"1.1 switchyard"))
    fields.reverse()
    return fields
