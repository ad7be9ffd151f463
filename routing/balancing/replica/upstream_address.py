"""Upstream address and security: where a replica is, how it is verified, and what keeps requests from it."""

from typing import NamedTuple

from routing.contract.addresses import parse_base_url
from routing.contract.table import Tls


class UpstreamAddress(NamedTuple):
    """Of one replica. Never changes: with another URL it is another replica."""

    host: str
    port: int
    authority: bytes
    """``host:port``."""
    host_field: bytes
    """The value of the Host header."""
    path_prefix: bytes
    """``b""`` or ``b"/base"``."""
    is_https: bool

    @classmethod
    def of(cls, url: str) -> "UpstreamAddress":
        """Raises ValueError in words when ``url`` is not a base URL that a replica can have."""
        base = parse_base_url(url)
        authority, host_field = base.authority.encode("ascii"), base.host_field.encode("ascii")
        prefix = base.path_prefix.encode("ascii")
        return cls(base.host, base.port, authority, host_field, prefix, base.scheme == "https")


class UpstreamSecurity:
    """Of one replica. :attr:`tls` follows the table; the proxy writes the rest."""

    __slots__ = ("no_credential", "not_verified", "tls")

    def __init__(self, is_https: bool) -> None:
        self.tls = Tls() if is_https else None
        """How the replica's certificate is verified; ``None``: plain HTTP."""
        self.no_credential = ""
        """Why its credential cannot be read; empty: it can, or the replica needs none."""
        self.not_verified = ""
        """Why verification failed when the last connection could not be opened; empty: it did not fail."""

    def __repr__(self) -> str:
        return f"<UpstreamSecurity {self.tls} {self.no_credential or self.not_verified or 'usable'}>"
