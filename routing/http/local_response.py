"""Local responses: those of the proxy itself (Envoy's local reply), as one joined piece of bytes."""

from http import HTTPStatus

from routing.http.dates import date_field

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_REASONS = {status.value: status.phrase.encode() for status in HTTPStatus}


def response_bytes(
    status: int,
    content_type: str,
    body: bytes,
    *,
    fields: bytes = b"",
    close: bool = False,
    head_only: bool = False,
) -> bytes:
    """A whole response. ``fields``: further fields, each preceded by CRLF. ``head_only``: it answers HEAD."""
    return b"HTTP/1.1 %d %b%b\r\nContent-Type: %b\r\nContent-Length: %d%b%b\r\n\r\n%b" % (
        status,
        _REASONS.get(status, b"Error"),
        date_field() if status < 500 else b"",
        content_type.encode(),
        len(body),
        fields,
        b"\r\nConnection: close" if close else b"",
        b"" if head_only else body,
    )
