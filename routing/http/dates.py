"""The header field Date (RFC 9110 §6.6.1): for local responses, and for replicas' responses without one.

The proxy's own errors from 500 on have no Date, as the RFC allows.
"""

from email.utils import formatdate
from time import time

_second = 0
_field = b""


def date_field() -> bytes:
    """For this moment, preceded by CRLF. Written anew once a second."""
    global _second, _field
    now = int(time())
    if now != _second:
        _second = now
        _field = b"\r\nDate: " + formatdate(now, usegmt=True).encode()
    return _field
