"""Cache of TLS client contexts: one for each CA bundle that a fleet trusts.

A context is made once and used for every connection, for reading a system's 150 CAs takes 15 ms. What it was
made of is looked at again when a connection is opened, at most once a second: a file that was replaced holds
from then on, without a restart. What cannot be read is an error for each new connection: neither are the CAs
of before trusted instead, nor is anything sent unverified.
"""

import ssl
import time
from typing import NamedTuple

from routing.tls import ca_bundle
from routing.tls.secret_loader import Stamp

LOOK_EVERY_S = 1.0
MOST = 256
"""More references than this at a time are typing errors in trials: all are forgotten, and made anew."""


class CaBundleError(Exception):
    """There is nothing to verify with; the text says which reference, and why."""


class _CachedContext(NamedTuple):
    context: ssl.SSLContext | None
    problem: str
    stamp: Stamp
    looked_at: float


class TlsContextCache:
    """Those of one process."""

    def __init__(self) -> None:
        self._made: dict[str, _CachedContext] = {}

    def get(self, ca: str) -> ssl.SSLContext:
        """For the CAs of this reference; empty: the system's. Raises Untrusted."""
        now = time.monotonic()
        made = self._made.get(ca)
        if made is None or now - made.looked_at >= LOOK_EVERY_S:
            stamp = ca_bundle.stamp(ca)
            # What could not be read may be readable now though nothing was written: rights, descriptors.
            if made is None or made.context is None or stamp != made.stamp:
                made = _make(ca, stamp, now)
            if len(self._made) >= MOST:
                self._made.clear()
            self._made[ca] = made = made._replace(looked_at=now)
        if made.context is None:
            raise CaBundleError(made.problem)
        return made.context


def _make(ca: str, stamp: Stamp, now: float) -> _CachedContext:
    try:
        return _CachedContext(new_context(ca), "", stamp, now)
    except ValueError as error:
        return _CachedContext(None, str(error), stamp, now)


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
