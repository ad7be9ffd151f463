"""Refuses WebSocket handshakes whose Origin is no URL: what compares it with the host's would raise."""

from urllib.parse import urlsplit

from channels.security.websocket import WebsocketDenier

from controlplane.asgi_types import App, Receive, Scope, Send


class ReadableOrigin:
    """Around the application that compares Origins."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._refuse = WebsocketDenier.as_asgi()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        readable = all(_is_url(value) for name, value in scope["headers"] if name == b"origin")
        await (self._app if readable else self._refuse)(scope, receive, send)


def _is_url(origin: bytes) -> bool:
    try:
        _ = urlsplit(origin.decode("latin-1")).port  # it is read when it is asked for
    except ValueError:
        return False
    return True
