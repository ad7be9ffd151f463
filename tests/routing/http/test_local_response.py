"""Local responses: one joined piece of bytes."""

import re

from routing.http.local_response import response_bytes


def test_response_bytes() -> None:
    response = response_bytes(404, "text/plain", b"no", fields=b"\r\nA: 1", close=True)
    assert re.sub(rb"\r\nDate: [^\r]+", b"", response, count=1) == (
        b"HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nContent-Length: 2\r\nA: 1\r\n"
        b"Connection: close\r\n\r\nno"
    )
    assert response_bytes(200, "a/b", b"body", head_only=True).endswith(b"Content-Length: 4\r\n\r\n")
