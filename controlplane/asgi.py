"""The web process: pages and REST API by Django, WebSockets by Channels."""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
django_application = get_asgi_application()

# These read models, so the apps must be loaded first.
from channels.auth import AuthMiddlewareStack  # noqa: E402
from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402
from channels.security.websocket import AllowedHostsOriginValidator, WebsocketDenier  # noqa: E402
from django.conf import settings  # noqa: E402
from django.urls import re_path  # noqa: E402
from django.utils.module_loading import import_string  # noqa: E402

from controlplane.celery import app as celery_app  # noqa: E402
from controlplane.datastores import redis, task_queue  # noqa: E402
from controlplane.observability.process import this_process  # noqa: E402
from controlplane.observability.websocket_metrics import WebSocketMetricsMiddleware  # noqa: E402
from controlplane.web import asgi_lifespan  # noqa: E402
from controlplane.web.credential_check import has_credential  # noqa: E402
from controlplane.web.forwarded_headers import ForwardedHeaders  # noqa: E402
from controlplane.web.readable_origin import ReadableOrigin  # noqa: E402
from controlplane.web.request_limits import RequestLimits  # noqa: E402
from routing.contract.trusted_proxies import TrustedProxies  # noqa: E402

this_process.set_role("web")
redis.hurry()
celery_app.conf.broker_transport_options = task_queue.hurried(celery_app.conf.broker_transport_options)
sockets = import_string(settings.WEBSOCKET_URLPATTERNS)
routes = [*sockets, re_path("", WebsocketDenier.as_asgi())]  # without one for the rest, the router raises
application = ForwardedHeaders(
    ProtocolTypeRouter(
        {
            "http": RequestLimits(django_application, has_credential),
            "websocket": WebSocketMetricsMiddleware(
                ReadableOrigin(AllowedHostsOriginValidator(AuthMiddlewareStack(URLRouter(routes)))), sockets
            ),
            "lifespan": asgi_lifespan.lifespan,
        }
    ),
    TrustedProxies(settings.TRUSTED_PROXIES),
)
