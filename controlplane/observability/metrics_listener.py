"""The listener beside a process's work: ``/metrics``, ``/livez`` and ``/readyz``, on a port of its own.

Off unless SWITCHYARD_METRICS_LISTEN says where. On loopback everything is open to this machine; anywhere else
``/metrics`` wants the bearer token of SWITCHYARD_METRICS_TOKEN, without which the start is refused. Requests
of web pages are refused: with an ``Origin``, and on loopback with a Host that is a name (DNS rebinding).
"""

import hmac
import json
import logging
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector

from controlplane.config.listen_address import ListenAddress
from controlplane.datastores.availability import redis_state
from controlplane.observability import metrics, process_health
from controlplane.observability.process import this_process
from controlplane.observability.process_health import Liveness, ProcessHealth
from routing.contract import origin_check

REQUEST_LIMIT_S = 5.0

logger = logging.getLogger(__name__)


def start(*collectors: Collector) -> "Listener | None":
    """Begin to listen where the settings say; None: nowhere. Raises ImproperlyConfigured."""
    address = settings.METRICS_LISTEN
    if address is None:
        return None
    try:
        listener = Listener(address, settings.METRICS_TOKEN, *collectors)
    except OSError as error:
        raise ImproperlyConfigured(
            f"SWITCHYARD_METRICS_LISTEN={address}: cannot listen there: {error.strerror or error}. "
            "Each process needs a port of its own."
        ) from error
    threading.Thread(target=listener.serve_forever, name="metrics", daemon=True).start()
    return listener


class Listener(ThreadingHTTPServer):
    """Answers from threads of its own, so that it does so while the process's work hangs."""

    daemon_threads = True
    request_queue_size = 16

    def __init__(self, address: ListenAddress, token: str, *collectors: Collector) -> None:
        self.address_family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        super().__init__((address.host, address.port), MetricsRequestHandler)
        self.loopback = address.is_loopback
        self.token = token
        self.registry = metrics.registry(this_process.role, *collectors)
        self.liveness = Liveness(this_process, redis_state)

    def server_bind(self) -> None:
        # Not HTTPServer's: it asks the name service for this host's name, which may take seconds.
        socket.socket.setsockopt(self.socket, socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])


class MetricsRequestHandler(BaseHTTPRequestHandler):
    """One request."""

    server: Listener
    timeout = REQUEST_LIMIT_S
    protocol_version = "HTTP/1.1"
    server_version = "switchyard"
    sys_version = ""

    def do_GET(self) -> None:
        refusal = origin_check.refusal(
            self.headers.get("Origin"), self.headers.get("Host", ""), self.server.loopback
        )
        path = urlsplit(self.path).path
        if refusal is not None:
            self._say(403, refusal)
        elif path == "/livez":
            self._say_health(self.server.liveness.look(), "live")
        elif path == "/readyz":
            self._say_health(process_health.ready(this_process.role), "ready")
        elif path == "/metrics":
            self._metrics()
        else:
            self._say(404, "available: /livez, /readyz and /metrics")

    def _metrics(self) -> None:
        if self.server.token and not self._knows_token():
            self._say(401, "say: Authorization: Bearer …, with the value of SWITCHYARD_METRICS_TOKEN")
            return
        self._send(200, CONTENT_TYPE_PLAIN_0_0_4, metrics.exposition(self.server.registry))

    def _knows_token(self) -> bool:
        given = self.headers.get("Authorization", "")
        return hmac.compare_digest(given.encode(), f"Bearer {self.server.token}".encode())

    def _say_health(self, found: ProcessHealth, word: str) -> None:
        status = word if found.ok else f"not {word}"
        body = json.dumps({"status": status, **found.checks}).encode() + b"\n"
        self._send(200 if found.ok else 503, "application/json", body)

    def _say(self, status: int, words: str) -> None:
        self._send(status, "text/plain; charset=utf-8", words.encode() + b"\n")

    def _send(self, status: int, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """A probe a second is no news."""
