"""Write timeout of WebSockets, in uvicorn's protocol, for its option ``--ws``.

uvicorn closes a connection whose pings are not answered only once everything has been sent. A client that
reads nothing would keep it, and what is buffered for it, for ever.
"""

import asyncio
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

SEND_S = 60.0
"""A client that takes nothing for so long is disconnected."""


class WebSocketConnection(WebSocketsSansIOProtocol):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._send_timer: asyncio.TimerHandle | None = None

    def pause_writing(self) -> None:
        super().pause_writing()
        self._send_timer = self.loop.call_later(SEND_S, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_timer()

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        self.loop.call_later(SEND_S, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def _stop_timer(self) -> None:
        if self._send_timer is not None:
            self._send_timer.cancel()
            self._send_timer = None
