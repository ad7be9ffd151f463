"""Bearer tokens for replicas: read from where a reference says, and shown only to the replica.

A token is read once and used for every request. :mod:`.reload_cache` looks now and then whether its file was
replaced. What cannot be read is an error until it can: neither is the token of before sent, nor anything
without one.

Proxies and the probes of both planes share it, so that what a probe is let in with, a request is too.
"""

import functools
import re
import socket

from routing.contract import protected_paths
from routing.contract.secret_references import OWN_FILE, shown
from routing.tls import secret_loader
from routing.tls.reload_cache import ReloadCache

MOST_BYTES = 16 << 10
MOST = 10_000
"""References at a time."""

_TOKEN = re.compile(rb"[\x21-\x7e]+\Z")


class CredentialError(Exception):
    """There is no token to send; the text says which reference, on which host, and why. Never the token."""


class Credentials:
    """Those of one process."""

    def __init__(self) -> None:
        self._read = ReloadCache(_read, secret_loader.stamp, CredentialError, MOST)

    def bearer(self, reference: str) -> bytes:
        """The value of Authorization. Raises CredentialError."""
        return b"Bearer " + self._read.get(reference)


def _read(reference: str) -> bytes:
    """Raises ValueError in words that name reference and host."""
    try:
        return read_token(reference)
    except ValueError as error:
        raise ValueError(f"credential {shown(reference)} {error} (host {socket.gethostname()})") from None


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
