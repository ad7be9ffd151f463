"""Bearer tokens for replicas: read from where a reference says, and shown only to the replica.

A token is read once and used for every request. Where it came from is looked at again now and then, at most
once a second: a file that was replaced holds from then on, without a restart. What cannot be read is an error
until it can: neither is the token of before sent, nor anything without one.

Proxies and the probes of both planes share it, so that what a probe is let in with, a request is too.
"""

import functools
import re
import socket
import time

from routing.contract import protected_paths
from routing.contract.secret_references import OWN_FILE
from routing.tls import secret_loader
from routing.tls.secret_loader import Stamp

LOOK_EVERY_S = 1.0
MOST_BYTES = 16 << 10
MOST = 10_000
"""More references than this at a time are typing errors in trials: all are forgotten, and read anew."""

_TOKEN = re.compile(rb"[\x21-\x7e]+\Z")


class CredentialError(Exception):
    """There is no token to send; the text says which reference, on which host, and why. Never the token."""


class _CachedToken:
    """What a reference has led to."""

    __slots__ = ("looked_at", "problem", "stamp", "token")

    def __init__(self, token: bytes, problem: str, stamp: Stamp, now: float) -> None:
        self.token = token
        self.problem = problem
        self.stamp = stamp
        self.looked_at = now

    def __repr__(self) -> str:
        return f"<_Read {self.problem or 'a token'}>"


class Credentials:
    """Those of one process."""

    def __init__(self) -> None:
        self._read: dict[str, _CachedToken] = {}

    def bearer(self, reference: str) -> bytes:
        """The value of Authorization. Raises CredentialError."""
        now = time.monotonic()
        known = self._read.get(reference)
        if known is None or now - known.looked_at >= LOOK_EVERY_S:
            known = self._looked_at(reference, known, now)
        if known.problem:
            raise CredentialError(known.problem)
        return b"Bearer " + known.token

    def _looked_at(self, reference: str, known: _CachedToken | None, now: float) -> _CachedToken:
        stamp = secret_loader.stamp(reference)
        # What could not be read may be readable now though nothing was written: rights, descriptors.
        if known is None or known.problem or stamp != known.stamp:
            try:
                known = _CachedToken(read_token(reference), "", stamp, now)
            except ValueError as error:
                known = _CachedToken(
                    b"", f"credential {reference} {error} (host {socket.gethostname()})", stamp, now
                )
        known.looked_at = now
        if len(self._read) >= MOST:
            self._read.clear()
        self._read[reference] = known
        return known


def redact_token(said: bytes, bearer: bytes) -> bytes:
    """What a replica answered, fit to be shown: without the token that it was asked with, should it quote it.

    ``bearer`` is what :meth:`Credentials.bearer` gave. The token is found as it is and as JSON, URLs and HTML
    write its characters; a first part of it too where ``said`` was cut off in the middle.
    """
    token = bearer.removeprefix(b"Bearer ")
    said = _written(token).sub(HIDDEN, said)
    for length in range(min(len(token) - 1, len(said)), _TELLING - 1, -1):
        if said.endswith(token[:length]):
            return said[:-length] + HIDDEN
    return said


HIDDEN = b"***"
_TELLING = 4
"""Fewer of a token's characters at the end of a text are there by chance."""


@functools.lru_cache(maxsize=256)
def _written(token: bytes) -> re.Pattern[bytes]:
    return re.compile(b"".join(_ways_to_write(code) for code in token))


def _ways_to_write(code: int) -> bytes:
    """A pattern of one character: letters and digits are written as they are everywhere."""
    character = bytes((code,))
    if character.isalnum():
        return character
    itself, number = re.escape(character), b"%02x" % code
    named = {b"&": b"|&amp;", b"<": b"|&lt;", b">": b"|&gt;", b'"': b"|&quot;"}.get(character, b"")
    # More than one backslash: JSON in a JSON string.
    quoted = rb"|\\*(?i:u00%b)|(?i:%%%b)|&#0*%d;|(?i:&#x0*%b);" % (number, number, code, number)
    return rb"(?:\\*%b%b%b)" % (itself, named, quoted)


def read_token(reference: str) -> bytes:
    """Raises ValueError that goes on behind the reference's name; it never holds what was found."""
    # Again, and where the file is: links change, and whoever took the reference may not know this host.
    if reference.startswith("file:") and protected_paths.is_protected(reference[5:]):
        raise ValueError(OWN_FILE)
    found = secret_loader.read(reference, MOST_BYTES, "a token's file has")
    if reference.startswith("file:"):
        found = found.rstrip(b"\r\n")
    if not found:
        raise ValueError("is empty")
    if _TOKEN.match(found) is None:
        raise ValueError(
            "holds more than a token: one line of ASCII without spaces is wanted, and no word before it"
        )
    return found
