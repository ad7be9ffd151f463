"""Request head: method, target and the contents of header fields, for later parts of the proxy."""

from __future__ import annotations

from typing import Final

from routing.http.forwarded_fields import ForwardedFields

_FIELDS: Final = (
    "chunked",
    "content_length",
    "expects_continue",
    "fields",
    "fleet",
    "forwarded",
    "host",
    "keep_alive",
    "key",
    "max_forwards",
    "method",
    "minor",
    "plain",
    "request_id",
    "route",
    "target",
    "time_limit_s",
    "trace",
    "upgrade",
    "via",
    "work",
)


class RequestHead:
    """One request's head. Immutable: if a client repeats a head byte for byte, its connection gives the same
    object again."""

    __slots__ = _FIELDS

    def __init__(self, method: bytes, target: bytes, minor: int) -> None:
        self.method = method
        self.target = target
        """Origin-form (``/path?query``) or ``*``."""
        self.minor = minor
        """0 or 1, of ``HTTP/1.x``."""
        self.host = b""
        """Whom the client means to speak to, port and all; empty: HTTP/1.0 need not say."""
        self.fields = b""
        """Those to forward, each preceded by CRLF, none after the last. Content-Length stands in here as it
        came, Host and Transfer-Encoding do not."""
        self.content_length = 0
        self.chunked = False
        self.keep_alive = minor == 1
        self.expects_continue = False
        self.max_forwards = -1
        """Only of OPTIONS; -1: not given."""
        self.via: bytes | None = None
        self.forwarded: ForwardedFields | None = None
        """What the client, or a proxy before this one, says about whose request it is."""
        self.request_id: bytes | None = None
        self.fleet: bytes | None = None
        """Value of ``X-Switchyard-Fleet``."""
        self.key: bytes | None = None
        """The client key that it presents (the first one). Whatever field held one is not in ``fields``."""
        self.trace: bytes | None = None
        """Value of a valid ``traceparent``; ``None``: no trace has begun."""
        self.time_limit_s = 0.0
        """Set by the client for the whole of this request (``X-Request-Timeout-Ms``); 0: none."""
        self.work: float | None = None
        """Units of work that the client states (``X-Switchyard-Work``), above 0; ``None``: it does not."""
        self.upgrade = False
        """Whether it asks for a WebSocket (RFC 6455 §4.1): the only protocol that may follow here."""
        self.plain = minor == 1
        """Nothing in it is to be continued: no Via, X-Forwarded-*, Upgrade or (of OPTIONS) Max-Forwards. It
        came in HTTP/1.1, the version that our Via names, and its other fields are forwarded as they came."""
        self.route: object | None = None
        """The routing's cached result for this head."""

    def copy(self) -> RequestHead:
        """Another one, of which parts are to be changed."""
        other = RequestHead(self.method, self.target, self.minor)
        for name in _FIELDS:
            setattr(other, name, getattr(self, name))
        return other

    @property
    def has_body(self) -> bool:
        return self.chunked or self.content_length > 0

    def __repr__(self) -> str:
        return f"<RequestHead {self.method.decode()} {self.target.decode()}>"
