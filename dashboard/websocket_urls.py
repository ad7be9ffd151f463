"""WebSocket addresses."""

from typing import Any

from django.urls import path

from dashboard.consumers import ClientKeysConsumer, LiveConsumer

websocket_urlpatterns: list[Any] = [
    path("ws/overview", LiveConsumer.as_asgi()),
    path("ws/client-keys", ClientKeysConsumer.as_asgi()),
    path("ws/fleets/<str:name>", LiveConsumer.as_asgi()),
]
