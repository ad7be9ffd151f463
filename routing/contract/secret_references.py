"""Secret references: ``env:NAME`` and ``file:PATH`` instead of the secret itself.

Proxies and probes resolve a reference on their own host, when they need it
(:mod:`routing.tls.secret_loader`). Database, Redis, disk copies, backups and logs contain only the reference.
"""

import re

from routing.contract import protected_paths

MAX_REFERENCE = 500

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
OWN_PREFIX = "SWITCHYARD_"
"""Prefix of environment variables with Switchyard's own secrets."""
OWN_FILE = "lies in Switchyard's own data folder, which is never sent to a replica"


def shown(reference: str) -> str:
    """As errors name it, which clients and readers of the API see: a file without the host's folders."""
    kind, _, place = reference.partition(":")
    return f"file:…/{place.rpartition('/')[2]}" if kind == "file" else reference


def ca_reference(text: str) -> str:
    """A reference to CA certificates, as it is kept; empty: none. Raises ValueError."""
    cure = "must be a reference to the CA certificates: file:/whole/path or env:NAME, not a certificate"
    return _reference(text, cure, "ca.pem")


def credential_reference(text: str) -> str:
    """A reference to a bearer token, as it is kept; empty: none. Raises ValueError.

    What it points to is sent to the replica's URL, so it must not point to a secret of ours. What was written
    may be the token itself, and is not repeated.
    """
    cure = "must be a reference to the replica's bearer token: env:NAME or file:/whole/path, not the token"
    if text.startswith(f"env:{OWN_PREFIX}"):
        raise ValueError(f"{OWN_PREFIX}… are Switchyard's own settings, which are never sent to a replica")
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
