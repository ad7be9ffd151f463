"""HTTP checks: what a process of this machine answers, for startup and liveness checks."""

import http.client
import json
from typing import Any
from urllib.parse import urlsplit

LIMIT_S = 5.0


def status_of(url: str, body: object = None, limit_s: float = LIMIT_S) -> int | None:
    """Status of a GET, or of a POST of ``body`` as JSON; ``None`` while nothing answers."""
    return _exchange(url, body, limit_s)[0]


def loaded(url: str) -> dict[str, Any]:
    """The JSON object at ``url``; empty while nothing answers."""
    status, content = _exchange(url, None, LIMIT_S)
    found: dict[str, Any] = json.loads(content) if status == 200 else {}
    return found


def _exchange(url: str, body: object, limit_s: float) -> tuple[int | None, bytes]:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=limit_s)
    try:
        if body is None:
            connection.request("GET", parts.path)
        else:
            content = json.dumps(body).encode()
            connection.request("POST", parts.path, content, {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, response.read()
    except (OSError, http.client.HTTPException):
        return None, b""
    finally:
        connection.close()
