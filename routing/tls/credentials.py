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


_RUN = re.compile(rb"\\+|[^\\]")
_ESCAPES = rb"\\*+"
"""More than one: JSON in a JSON string."""


@functools.lru_cache(maxsize=256)
def _written(token: bytes) -> re.Pattern[bytes]:
    """The replica writes what is searched, so no run of its characters is read again from each place in it:
    quantifiers are possessive, and the pattern begins with none. So what escapes a token's first character
    is left."""
    first, *others = _RUN.findall(token)
    # Once a run of backslashes: none before it, or it is written otherwise.
    begin = rb"(?:(?<!\\)|(?!\\))" if first.startswith(b"\\") else b""
    ways = [begin + _ways_to_write(first)]
    ways += [run if run.isalnum() else _after_escapes(run) for run in others]
    return re.compile(b"".join(ways))


def _after_escapes(run: bytes) -> bytes:
    ways = _ways_to_write(run)
    return rb"(?:%b|%b%b)" % (ways, _ESCAPES, ways) if run.startswith(b"\\") else _ESCAPES + ways


def _ways_to_write(run: bytes) -> bytes:
    """A pattern of one character, or of backslashes in a row: letters and digits are written as they are
    everywhere."""
    if run.isalnum():
        return run
    code = run[0]
    number = rb"(?:(?i:u00%02x|%%%02x|&#x0*+%02x;)|&#0*+%d;)" % (code, code, code, code)
    if run.startswith(b"\\"):
        # However often each is doubled.
        return rb"(?:\\{%d,}+|%b(?:%b%b){%d})" % (len(run), number, _ESCAPES, number, len(run) - 1)
    named = {b"&": b"|&amp;", b"<": b"|&lt;", b">": b"|&gt;", b'"': b"|&quot;"}.get(run, b"")
    return rb"(?:%b%b|%b)" % (re.escape(run), named, number)


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
