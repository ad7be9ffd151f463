"""HTTP requests of the agent: short, one at a time, straight to the address that is given."""

import json
import ssl
import urllib.error
import urllib.request
from http.client import HTTPException
from typing import Any, NamedTuple


class Reply(NamedTuple):
    status: int
    body: dict[str, Any]
    """Empty where it is no JSON object."""


class NoReply(Exception):
    """Nothing answered, in words."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        """A token is sent where it is meant for alone."""
        return


class HttpCaller:
    def __init__(self, timeout_s: float, ca: str = "") -> None:
        """``ca``: file of certificates that are trusted; empty: the system's."""
        self._timeout_s = timeout_s
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}),
            urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=ca or None)),
            _NoRedirects(),
        )

    def __call__(self, method: str, url: str, body: Any = None, token: str = "") -> Reply:
        """Raises NoReply."""
        headers = {"Authorization": f"Token {token}"} if token else {}
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        request = urllib.request.Request(url, data, headers, method=method)
        try:
            with self._opener.open(request, timeout=self._timeout_s) as response:
                return Reply(response.status, _object(response.read(_MOST_BYTES)))
        except urllib.error.HTTPError as error:
            with error:
                return Reply(error.code, _object(error.read(_MOST_BYTES)))
        except (OSError, HTTPException) as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            raise NoReply(str(reason) or type(reason).__name__) from error


_MOST_BYTES = 1024 * 1024


def _object(data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
