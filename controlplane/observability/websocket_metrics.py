"""WebSocket metrics and access log: how many are open, by which route, how they ended."""

import logging
import re
import time
from typing import Any

from controlplane.asgi_types import App, Message, Receive, Scope, Send
from controlplane.observability import metrics

access = logging.getLogger("switchyard.access")


class WebSocketMetricsMiddleware:
    """Around the application that serves WebSockets. ``routes``: their URL patterns, from the URL table."""

    def __init__(self, app: App, routes: list[Any]) -> None:
        self._app = app
        self._routes = [(re.compile(each.pattern.regex.pattern), f"/{each.pattern}") for each in routes]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        route, began, code, open_now = self._route(scope), time.monotonic(), 0, False

        async def observed_send(message: Message) -> None:
            nonlocal code, open_now
            if message["type"] == "websocket.accept":
                open_now = True
                metrics.SOCKETS_OPENED.labels(route).inc()
                metrics.SOCKETS_OPEN.labels(route).inc()
            elif message["type"] == "websocket.close":
                code = message.get("code") or 1000
            await send(message)

        async def observed_receive() -> Message:
            nonlocal code
            message = await receive()
            if message["type"] == "websocket.disconnect":
                code = code or message.get("code") or 1006
            return message

        try:
            await self._app(scope, observed_receive, observed_send)
        finally:
            if open_now:
                metrics.SOCKETS_OPEN.labels(route).dec()
            self._log(scope, route, code, time.monotonic() - began)

    def _route(self, scope: Scope) -> str:
        path = scope.get("path", "").lstrip("/")
        return next((route for pattern, route in self._routes if pattern.match(path)), "(none)")

    def _log(self, scope: Scope, route: str, code: int, seconds: float) -> None:
        peer = scope.get("client") or ("",)
        fields = {
            "method": "WEBSOCKET",
            "route": route,
            "status": code,
            "ms": round(seconds * 1000, 1),
            "client": peer[0],
        }
        access.info("WEBSOCKET %s %d", route, code, extra={"fields": fields})
