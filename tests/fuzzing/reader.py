"""How h11, a parser written by others and unlike ours, reads the same bytes."""

from collections.abc import Iterable
from dataclasses import dataclass, field

import h11

_ROOM = 1 << 20
"""h11's limit for one incomplete event; ours are tested elsewhere."""


@dataclass
class Message:
    """One request or response as it was read; fields with lower-case names, in order."""

    start: tuple[bytes, bytes]
    """Method and target, or status and nothing."""
    fields: list[tuple[bytes, bytes]]
    body: bytes = b""
    complete: bool = False
    may_go_on: bool = False
    """Whether another message may follow on the connection."""
    informational: list[int] = field(default_factory=list)
    kept_in_1_0: bool = False
    """A response in HTTP/1.0 that says keep-alive (RFC 9112 §9.3), which h11 does not know."""


@dataclass
class Reading:
    messages: list[Message] = field(default_factory=list)
    """The last one may be incomplete."""
    refused: str = ""
    """Why reading stopped, if the bytes broke a rule."""
    rest: bytes = b""
    """Not read: behind the last message of the connection."""


def read_requests(data: bytes) -> Reading:
    """All requests of one connection, as a server that answers each of them once it is complete."""
    reading = Reading(rest=data)
    while True:
        # RFC 9112 §2.2 asks servers to ignore empty lines before a request; h11 does not.
        while reading.rest.startswith(b"\r\n"):
            reading.rest = reading.rest[2:]
        message = _read(h11.Connection(h11.SERVER, _ROOM), reading, False)
        if message is None or not message.may_go_on:
            return reading


class RequestReader:
    """As :func:`read_requests`, of bytes that come piece by piece."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        """The last one may be incomplete."""
        self.refused = ""
        self._connection = h11.Connection(h11.SERVER, _ROOM)
        self._in_head = True

    @property
    def waits_for_more(self) -> bool:
        """Whether a head has begun and is not complete."""
        return self._in_head and bool(self._connection.trailing_data[0])

    def feed(self, data: bytes) -> None:
        if not data:
            return  # h11 would take it for the end
        try:
            self._connection.receive_data(data)
            while True:
                event = self._connection.next_event()
                if isinstance(event, h11.Request):
                    self._in_head = False
                    self.messages.append(Message((event.method, event.target), _fields(event.headers)))
                elif isinstance(event, h11.Data):
                    self.messages[-1].body += event.data
                elif isinstance(event, h11.EndOfMessage):
                    self.messages[-1].complete = True
                    rest = bytes(self._connection.trailing_data[0])
                    self._connection = h11.Connection(h11.SERVER, _ROOM)
                    self._in_head = True
                    if not rest:
                        return
                    self._connection.receive_data(rest)
                else:
                    return
        except h11.RemoteProtocolError as error:
            self.refused = self.refused or str(error)


def read_answer(method: bytes, data: bytes, ended: bool) -> Reading:
    """One response to a request with this method. ``ended``: the sender closed after ``data``."""
    connection = h11.Connection(h11.CLIENT, _ROOM)
    connection.send(h11.Request(method=method, target="/", headers=[("Host", "a.test")]))
    connection.send(h11.EndOfMessage())
    reading = Reading(rest=data)
    _read(connection, reading, ended)
    return reading


def _read(connection: h11.Connection, reading: Reading, ended: bool) -> Message | None:
    """Reads one message from ``reading.rest``; appends it. ``None``: there was no whole head."""
    message: Message | None = None
    informational: list[int] = []
    try:
        if reading.rest:
            connection.receive_data(reading.rest)
        if ended:
            connection.receive_data(b"")
        while True:
            event = connection.next_event()
            if isinstance(event, h11.Request):
                message = Message((event.method, event.target), _fields(event.headers))
                reading.messages.append(message)
            elif isinstance(event, h11.InformationalResponse):
                informational.append(event.status_code)
            elif isinstance(event, h11.Response):
                message = Message((b"%d" % event.status_code, b""), _fields(event.headers))
                message.informational = informational
                message.kept_in_1_0 = event.http_version == b"1.0" and _says_keep_alive(message.fields)
                reading.messages.append(message)
            elif isinstance(event, h11.Data) and message is not None:
                message.body += event.data
            elif isinstance(event, h11.EndOfMessage) and message is not None:
                message.complete = True
                goes_on = connection.their_state not in (h11.MUST_CLOSE, h11.CLOSED)
                message.may_go_on = goes_on or message.kept_in_1_0
                reading.rest = bytes(connection.trailing_data[0])
                return message
            else:  # more is needed, or the connection is closed
                if message is not None:
                    reading.rest = b""
                return None
    except h11.RemoteProtocolError as error:
        reading.refused = str(error)
        return None


def _says_keep_alive(fields: list[tuple[bytes, bytes]]) -> bool:
    """And does not say close, or chunked, which HTTP/1.0 did not know."""
    said = b",".join(value.lower() for name, value in fields if name in (b"connection", b"transfer-encoding"))
    options = {option.strip(b" \t") for option in said.split(b",")}
    return b"keep-alive" in options and not options & {b"close", b"chunked"}


def _fields(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    return [(bytes(name), bytes(value)) for name, value in headers]
