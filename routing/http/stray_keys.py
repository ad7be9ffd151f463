"""Credential stripping: client keys that stand where no key is read are kept from replicas all the same.

A key belongs into ``Authorization`` or ``x-api-key``. One in the query, in a cookie, in Basic credentials or
in another field opens nothing here; but whoever runs a replica could use it at this proxy. So a cookie or a
member of ``Sec-WebSocket-Protocol`` that holds one is left out, and so is any other field, and a parameter
of the query.
"""

import binascii
import re
from urllib.parse import unquote_to_bytes

from routing.contract.client_keys import PREFIX
from routing.http.request_head import RequestHead

KEY_BEGINS = PREFIX.encode()
"""What holds none of these bytes needs no search."""
STRAY_KEY = re.compile(rb"(?<![0-9A-Za-z])" + KEY_BEGINS + rb"[0-9A-Za-z]{32,120}+(?![0-9A-Za-z])")
BASIC = b"basic "
_FIELD = re.compile(rb"\r\n([^:\r]++):[ \t]*+([^\r]*+)")
_SEPARATORS = {b"cookie": b";", b"sec-websocket-protocol": b","}
"""Fields of which a part is left out, and not the whole."""


def holds_key(credentials: bytes) -> bool:
    """Whether Basic credentials (RFC 7617 §2, with the scheme) hold a client key as user or password."""
    try:
        decoded = binascii.a2b_base64(credentials[len(BASIC) :].strip(b" \t"))
    except binascii.Error:
        return False
    return STRAY_KEY.search(decoded) is not None


def remove_stray_keys(head: RequestHead) -> None:
    """Leave keys out of the query and the fields of ``head``. Nothing of the usual head is changed."""
    target = head.target
    if b"?" in target:
        path, _, query = target.partition(b"?")
        if STRAY_KEY.search(query if b"%" not in query else unquote_to_bytes(query)) is not None:
            kept = [pair for pair in query.split(b"&") if not STRAY_KEY.search(unquote_to_bytes(pair))]
            head.target = path + b"?" + b"&".join(kept) if kept else path
            head.plain = False
    if KEY_BEGINS in head.fields and STRAY_KEY.search(head.fields) is not None:
        head.fields = _FIELD.sub(_without_key, head.fields)
        # Templates are made of heads whose fields are forwarded as they came.
        head.plain = False


def _without_key(field: re.Match[bytes]) -> bytes:
    if STRAY_KEY.search(field[2]) is None:
        return field[0]
    separator = _SEPARATORS.get(field[1].lower())
    if separator is None:
        return b""
    parts = [part for part in field[2].split(separator) if STRAY_KEY.search(part) is None]
    kept = separator.join(parts).strip(b" \t")
    return b"\r\n%b: %b" % (field[1], kept) if kept else b""
