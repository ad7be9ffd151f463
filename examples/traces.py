"""Shows traces as they come: a receiver for OpenTelemetry (OTLP over HTTP) that prints each request's spans.

    python -m examples.traces [--listen 127.0.0.1:4318]

For a look at what a proxy exports, without a collector. It keeps nothing.
"""

import argparse
import gzip
from collections.abc import Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from examples.output import say

LARGEST = 64 << 20
"""Bytes of one batch."""


class TraceHandler(BaseHTTPRequestHandler):
    """One connection of an exporter."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        data = self.rfile.read(min(int(self.headers.get("Content-Length", 0)), LARGEST))
        try:
            if self.headers.get("Content-Encoding") == "gzip":
                data = gzip.decompress(data)
            for line in lines_of(ExportTraceServiceRequest.FromString(data)):
                say(line)
        except (OSError, DecodeError) as problem:
            self.send_error(400, f"no batch of traces: {problem}")
            return
        body = ExportTraceServiceResponse().SerializeToString()
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """The traces are what is shown."""


def lines_of(message: Any) -> Iterator[str]:
    """A line for each span, below that of its parent, with a blank one before each request."""
    spans = [span for group in message.resource_spans for scope in group.scope_spans for span in scope.spans]
    here = {span.span_id for span in spans}
    for span in spans:
        if span.parent_span_id not in here:
            yield ""
            yield f"trace {span.trace_id.hex()}"
            yield from _tree(span, spans, span.start_time_unix_nano, 1)


def _tree(span: Any, spans: Iterable[Any], began_ns: int, depth: int) -> Iterator[str]:
    at_ms = (span.start_time_unix_nano - began_ns) / 1e6
    took_ms = (span.end_time_unix_nano - span.start_time_unix_nano) / 1e6
    failed = " ERROR" if span.status.code == 2 else ""
    said = " ".join(f"{pair.key}={_value(pair.value)}" for pair in span.attributes)
    yield f"{'  ' * depth}{span.name}{failed}: at {at_ms:.1f} ms, {took_ms:.1f} ms  {said}".rstrip()
    for event in span.events:
        yield f"{'  ' * (depth + 1)}* {event.name}: at {(event.time_unix_nano - began_ns) / 1e6:.1f} ms"
    for child in spans:
        if child.parent_span_id == span.span_id:
            yield from _tree(child, spans, began_ns, depth + 1)


def _value(value: Any) -> Any:
    return getattr(value, value.WhichOneof("value") or "string_value")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--listen", metavar="HOST:PORT", default="127.0.0.1:4318")
    host, _, port = parser.parse_args().listen.rpartition(":")
    server = ThreadingHTTPServer((host, int(port)), TraceHandler)
    say(f"listening on {host}:{server.server_port}")
    server.serve_forever()


if __name__ == "__main__":
    main()
