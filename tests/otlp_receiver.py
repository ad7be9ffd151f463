"""Receiver of traces for tests: OTLP over real HTTP, with OpenTelemetry's own messages."""

import gzip
import ssl
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from tests.ports import free_port
from tests.proxy_process import until

KINDS = {1: "internal", 2: "server", 3: "client"}


class Span(NamedTuple):
    """One span as it came."""

    name: str
    kind: str
    trace_id: str
    span_id: str
    parent_id: str
    """Empty: it has none."""
    began_ns: int
    ended_ns: int
    failed: bool
    attributes: dict[str, Any]
    events: dict[str, int]
    """When, by name."""
    resource: dict[str, Any]

    @property
    def seconds(self) -> float:
        return (self.ended_ns - self.began_ns) / 1e9


class Receiver:
    """On a port of its own. ``status`` and ``body``: of its answers from now on; ``headers`` go with them."""

    def __init__(self, port: int | None = None, tls: ssl.SSLContext | None = None) -> None:
        self.status = 200
        self.body = ExportTraceServiceResponse().SerializeToString()
        self.headers: dict[str, str] = {}
        self.first: list[int] = []
        """Statuses of its next answers, before that."""
        self.spans: list[Span] = []
        self.raw = b""
        """All that came, uncompressed."""
        self.posts: list[Mapping[str, str]] = []
        """Header fields of each."""
        self.held = threading.Event()
        """Set: it answers."""
        self.held.set()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                data = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.posts.append({**dict(self.headers.items()), "path": self.path})
                receiver.held.wait()
                status = receiver.first.pop(0) if receiver.first else receiver.status
                if status == 200:
                    receiver.take(gzip.decompress(data) if self.headers["Content-Encoding"] else data)
                self.send_response(status)
                for name, value in {**receiver.headers, "Content-Length": str(len(receiver.body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(receiver.body)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: Any, client_address: Any) -> None:
                """A proxy that ended meanwhile."""

        self._server = Server(("127.0.0.1", port or free_port()), Handler)
        self.port = self._server.server_port
        self.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{self.port}"
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def take(self, data: bytes) -> None:
        self.raw += data
        message = ExportTraceServiceRequest.FromString(data)
        for group in message.resource_spans:
            resource = _attributes(group.resource.attributes)
            for scope in group.scope_spans:
                assert scope.scope.name == "switchyard"
                self.spans += [_span(span, resource) for span in scope.spans]

    def trace(self, spans: int, trace_id: str = "") -> list[Span]:
        """The spans of one request, parents first, once there are so many."""

        def found() -> list[Span]:
            ours = [span for span in self.spans if trace_id in ("", span.trace_id)]
            return ours if len(ours) >= spans else []

        return until(found, f"{spans} spans", 15.0)

    def stop(self) -> None:
        self.held.set()
        self._server.shutdown()
        self._server.server_close()


def _span(span: Any, resource: dict[str, Any]) -> Span:
    return Span(
        span.name,
        KINDS[span.kind],
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        span.status.code == 2,
        _attributes(span.attributes),
        {event.name: event.time_unix_nano for event in span.events},
        resource,
    )


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}
