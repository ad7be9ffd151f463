"""References to what must not be in a table itself: ``env:NAME`` and ``file:PATH``.

A proxy and a probe follow one on their own host and when they need it (:mod:`routing.tls`). Database, Redis,
disk copies, backups and logs hold the reference only.
"""

import re

MAX_REFERENCE = 500

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_CURE = "says where the CA's certificate is: file:/whole/path or env:NAME, never the certificate itself"


def ca_reference(text: str) -> str:
    """A reference to CA certificates, as it is kept; empty: none. Raises ValueError.

    A path is whole, for it means the same on every host and in whatever folder a process was started.
    """
    if not text:
        return ""
    kind, _, place = text.partition(":")
    if len(text) > MAX_REFERENCE or not text.isprintable() or kind not in ("env", "file") or not place:
        raise ValueError(_CURE)
    if kind == "file" and not place.startswith("/"):
        raise ValueError(f"{text}: write the whole path, as in file:/etc/switchyard/ca.pem")
    if kind == "env" and not _VARIABLE.match(place):
        raise ValueError(f"{text}: an environment variable's name has letters, digits and underscores")
    return text
