"""Forwarded fields: what other proxies said of a request's client, read apart from what is forwarded.

They are believed only if the connection is that of a trusted proxy
(:mod:`routing.contract.trusted_proxies`); else they are what a client has made up, and go no further.
"""

from routing.contract.trusted_proxies import TrustedProxies, forwarded_for


class ForwardedFields:
    """Those of one head."""

    __slots__ = ("_client", "_forwarded", "chain", "others", "scheme")

    def __init__(self) -> None:
        self.chain = b""
        """``X-Forwarded-For``."""
        self.scheme = b""
        """``X-Forwarded-Proto``."""
        self.others = b""
        """Further ``X-Forwarded-*`` fields, each preceded by CRLF."""
        self._forwarded = b""
        self._client: bytes | None = None

    def add(self, name: bytes, value: bytes) -> None:
        """``name`` in lower case."""
        if name == b"x-forwarded-for":
            self.chain = _joined(self.chain, value)
        elif name == b"x-forwarded-proto":
            self.scheme = _joined(self.scheme, value)
        elif name == b"forwarded":
            self._forwarded = _joined(self._forwarded, value)
        else:
            self.others += b"\r\n%b: %b" % (name.title(), value)

    def finish(self) -> None:
        """All have been added. Of ``Forwarded`` (RFC 7239) the addresses count, if nothing else has them."""
        if not self.chain and self._forwarded:
            self.chain = forwarded_for(self._forwarded.decode("latin-1")).encode("latin-1")

    def client(self, peer: bytes, trusted: TrustedProxies) -> bytes:
        """The client's address. Always asked with the same arguments: a head is one connection's."""
        if self._client is None:
            chain = self.chain.decode("latin-1")
            self._client = trusted.client(peer.decode("latin-1"), chain).encode("latin-1")
        return self._client


def _joined(before: bytes, value: bytes) -> bytes:
    return before + b", " + value if before else value
