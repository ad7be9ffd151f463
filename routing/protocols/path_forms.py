"""Path normalisation (RFC 3986 §6.2.2): the forms in which servers may read a path.

The proxy forwards a path as it came, and does not know how the replica's server reads it: some decode before
they split it into segments, some after; some take a backslash for a slash, drop what stands behind a ``;``
(matrix parameters), leave out control characters, or decode once more. What is compared with a list of paths
is therefore every one of these forms. A path that has a dot segment in any of them has none: no client sends
that, for it is removed before a request is sent (RFC 3986 §5.2.4), and with one a path leads out of a
replica's prefix.
"""

import re
from urllib.parse import unquote_to_bytes

_UNUSUAL = re.compile(rb"[%\\;]|//|/\.\.?(?:/|\Z)")
_SEPARATOR = re.compile(rb"%(2[fF]|5[cC]|3[bBfF]|2[35])")
"""Encoded characters that separate something, once they are decoded: ``/ \\ ; ? # %``."""
_CONTROLS = bytes((*range(0x20), 0x7F))
_MOST_DECODED = 3
"""Times that a path is decoded. One that still changes after that is refused."""


def path_of(target: bytes) -> bytes:
    """The path of a request target, without its query."""
    return target.partition(b"?")[0]


def forms_of(path: bytes) -> tuple[bytes, ...] | None:
    """The distinct forms of a path, each without a slash at the end (``b""``: the root) and without empty
    segments; nearly always one. ``None``: it has dot segments, or is encoded again and again."""
    if _UNUSUAL.search(path) is None:
        return (path.rstrip(b"/"),)
    # As servers read it that split before they decode.
    text = unquote_to_bytes(_SEPARATOR.sub(rb"%25\1", path))
    forms: dict[bytes, None] = {}
    for _ in range(_MOST_DECODED):
        for read in (text, text.translate(None, _CONTROLS)):
            form = _without_empty_segments(read)
            if form is None:
                return None
            forms[form] = None
        # A path that is read again may lose what then is its query, and what stands behind a NUL.
        decoded = re.split(rb"[?#\0]", unquote_to_bytes(text).replace(b"\\", b"/"), maxsplit=1)[0]
        if decoded == text:
            return tuple(forms)
        text = decoded
    return None


def _without_empty_segments(path: bytes) -> bytes | None:
    """Without parameters too. ``None``: it has a dot segment."""
    kept = []
    for segment in path.split(b"/"):
        name = segment.partition(b";")[0]
        if name in (b".", b".."):
            return None
        if name:
            kept.append(name)
    return b"".join([b"/" + name for name in kept])
