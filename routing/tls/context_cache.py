"""Cache of TLS client contexts: one for each CA bundle that a fleet trusts.

A context is made once and used for every connection, for reading a system's 150 CAs takes 15 ms. When a
connection is opened, :mod:`.reload_cache` looks whether the CAs have changed. What cannot be read is an error
for each new connection: neither are the CAs of before trusted instead, nor is anything sent unverified.
"""

import ssl

from routing.tls import ca_bundle
from routing.tls.reload_cache import ReloadCache

MOST = 256
"""References, and so contexts, at a time."""


class CaBundleError(Exception):
    """There is nothing to verify with; the text says which reference, and why."""


class TlsContextCache:
    """Those of one process."""

    def __init__(self) -> None:
        self._made = ReloadCache(new_context, ca_bundle.stamp, CaBundleError, MOST)

    def get(self, ca: str) -> ssl.SSLContext:
        """For the CAs of this reference; empty: the system's. Raises CaBundleError."""
        return self._made.get(ca)


def new_context(ca: str) -> ssl.SSLContext:
    """Raises ValueError in words."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.hostname_checks_common_name = False
    context.set_alpn_protocols(["http/1.1"])
    if not ca:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        return context
    # The CA that a team has is often one below the root.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    certificates = ca_bundle.certificates(ca)
    try:
        context.load_verify_locations(cadata=certificates)
    except ssl.SSLError as error:
        why = error.reason or str(error)
        raise ValueError(f"tls.ca {ca} holds a certificate that cannot be read: {why}") from None
    return context
