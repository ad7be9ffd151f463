"""Upstream address: where a replica is, and the bytes that requests to it need. From its base URL."""

from typing import NamedTuple

from routing.contract.addresses import parse_base_url


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
