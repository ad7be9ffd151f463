"""Upstream address and security: where a replica is, how it is verified, and what keeps requests from it."""

import msgspec

from routing.balancing.replica.untracked import Untracked
from routing.contract.addresses import parse_base_url
from routing.contract.table import Tls


class UpstreamAddress(msgspec.Struct, frozen=True, gc=False):
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


class UpstreamSecurity(Untracked):
    """Of one replica. :attr:`tls` follows the table; the proxy writes the rest."""

    tls: Tls | None
    """How the replica's certificate is verified; ``None``: plain HTTP."""
    no_credential: str = ""
    """Why its credential cannot be read; empty: it can, or the replica needs none."""
    not_verified: str = ""
    """Why verification failed when the last connection could not be opened; empty: it did not fail."""

    def __repr__(self) -> str:
        return f"<UpstreamSecurity {self.tls} {self.no_credential or self.not_verified or 'usable'}>"
