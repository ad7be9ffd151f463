"""Forwarded headers: a client's address and scheme, from trusted reverse proxies alone.

ASGI middleware before everything else, WebSockets included. What the headers say is put into the scope, and
the headers are dropped, whoever sent them: nothing behind this reads one. ``Host`` counts as it came; a
reverse proxy has to pass it on.
"""

import re

from controlplane.asgi_types import App, Receive, Scope, Send
from routing.contract.trusted_proxies import UNIX, TrustedProxies

_FORWARDED = re.compile(rb"forwarded\Z|x-(?:forwarded(?:-|\Z)|real-ip\Z|original-url\Z|rewrite-url\Z)")
_SCHEMES = {"http": {"http": "http", "https": "https"}, "websocket": {"http": "ws", "https": "wss"}}
"""Kind of a connection → what ``X-Forwarded-Proto`` may say → its scheme."""


class ForwardedHeaders:
    def __init__(self, app: App, trusted: TrustedProxies) -> None:
        self._app = app
        self._trusted = trusted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        schemes = _SCHEMES.get(scope["type"])
        if schemes is not None and any(_FORWARDED.match(name) for name, _ in scope["headers"]):
            scope = {**scope, **self._believed(scope, schemes)}
            scope["headers"] = [pair for pair in scope["headers"] if not _FORWARDED.match(pair[0])]
        await self._app(scope, receive, send)

    def _believed(self, scope: Scope, schemes: dict[str, str]) -> Scope:
        """What is known better by these headers."""
        peer = scope["client"][0] if scope.get("client") else UNIX
        if not self._trusted.is_trusted(peer):
            return {}
        said: Scope = {}
        client = self._trusted.client(peer, _joined(scope, b"x-forwarded-for"))
        if client != UNIX:
            said["client"] = (client, 0)
        # Of several proxies the last one has the last word.
        scheme = _joined(scope, b"x-forwarded-proto").rpartition(",")[2].strip().lower()
        if scheme in schemes:
            said["scheme"] = schemes[scheme]
        return said


def _joined(scope: Scope, wanted: bytes) -> str:
    return ",".join(value.decode("latin-1") for name, value in scope["headers"] if name == wanted)
