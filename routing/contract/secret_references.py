"""Secret references, to what must not be in a table itself: ``env:NAME`` and ``file:PATH``.

A proxy and a probe follow one on their own host and when they need it (:mod:`routing.tls.secret_loader`).
Database, Redis, disk copies, backups and logs hold the reference only.
"""

import re

from routing.contract import protected_paths

MAX_REFERENCE = 500

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
OWN_PREFIX = "SWITCHYARD_"
"""How the variables begin that hold secrets of Switchyard's own."""
OWN_FILE = "lies among Switchyard's own data, of which no replica is told"


def ca_reference(text: str) -> str:
    """A reference to CA certificates, as it is kept; empty: none. Raises ValueError."""
    cure = "says where the CA's certificate is: file:/whole/path or env:NAME, never the certificate itself"
    return _reference(text, cure, "ca.pem")


def credential_reference(text: str) -> str:
    """A reference to a bearer token, as it is kept; empty: none. Raises ValueError.

    What it leads to is sent to the replica's URL, so it must not lead to a secret of ours. What was written
    may be the token itself, and is not repeated.
    """
    cure = "says where the replica's bearer token is: env:NAME or file:/whole/path, never the token itself"
    if text.startswith(f"env:{OWN_PREFIX}"):
        raise ValueError(f"{OWN_PREFIX}… are settings of Switchyard's own, which no replica is told")
    reference = _reference(text, cure, "replica.token")
    if reference.startswith("file:") and protected_paths.is_protected(reference[5:]):
        raise ValueError(f"{reference} {OWN_FILE}; put the token into a file elsewhere")
    return reference


def _reference(text: str, cure: str, example: str) -> str:
    """A path is whole, for it means the same on every host and in whatever folder a process was started."""
    if not text:
        return ""
    kind, _, place = text.partition(":")
    if len(text) > MAX_REFERENCE or not text.isprintable() or kind not in ("env", "file") or not place:
        raise ValueError(cure)
    if kind == "file" and not place.startswith("/"):
        raise ValueError(f"{text}: write the whole path, as in file:/etc/switchyard/{example}")
    if kind == "env" and not _VARIABLE.match(place):
        raise ValueError(f"{text}: an environment variable's name has letters, digits and underscores")
    return text
