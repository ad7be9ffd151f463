"""What the web process has addresses for, as Django's resolver and the WebSocket's know them."""

import re
from collections.abc import Iterator
from typing import Any

from django.urls import URLPattern, URLResolver, get_resolver

from dashboard.websocket_urls import websocket_urlpatterns


def of_pages_and_api(patterns: Any = None, prefix: str = "/") -> Iterator[str]:
    """Each address as its pattern has it: ``/api/v1/fleets/<str:fleet>``."""
    for pattern in get_resolver().url_patterns if patterns is None else patterns:
        route = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from of_pages_and_api(pattern.url_patterns, route)
        elif isinstance(pattern, URLPattern):
            yield route


def of_websockets() -> Iterator[str]:
    for pattern in websocket_urlpatterns:
        yield str(pattern.pattern)


def path(route: str) -> str:
    """An address of this kind; its fleet is ``llm``."""
    named = route.replace("<str:replica>", "a").replace("<path:accelerator>", "host/0")
    return re.sub(r"<int:\w+>", "1", re.sub(r"<str:\w+>", "llm", named))
