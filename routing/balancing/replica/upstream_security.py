"""Upstream security: TLS verification and credential of one replica, and why either is missing."""

from routing.contract.table import Tls


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
