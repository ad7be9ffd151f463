"""OTLP: OpenTelemetry's own exporter, as the settings say. Imports what few proxies need."""

import logging
from collections.abc import Sequence
from random import Random

from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace.export import SpanExportResult

from routing.ipc.finished_traces import decode
from routing.master.export_settings import ExportSettings
from routing.master.tracing.spans import SpanMaker, resource_of

log = logging.getLogger(__name__)

_LIBRARY = "opentelemetry"
"""Name of its logger."""


class OtlpExporter:
    """Exports traces to one receiver. Of one thread, and the only one of its process."""

    def __init__(self, settings: ExportSettings, proxy: str, random: Random) -> None:
        """``proxy``: the proxy's name."""
        self._said = _LastWords()
        logger = logging.getLogger(_LIBRARY)
        logger.propagate = False
        logger.handlers = [self._said]
        self._maker = SpanMaker(resource_of(settings.service, proxy, settings.resource), random)
        self._exporter = OTLPSpanExporter(
            settings.endpoint,
            certificate_file=settings.certificate,
            client_key_file=settings.client_key,
            client_certificate_file=settings.client_certificate,
            headers=settings.headers,
            timeout=settings.timeout_s,
            compression=Compression.Gzip if settings.compressed else Compression.NoCompression,
        )

    def export(self, encoded: Sequence[bytes]) -> str:
        """Why the receiver has not taken these traces, each some as of :mod:`routing.ipc.finished_traces`;
        empty: it has. Blocks, for the timeout of the settings at most."""
        try:
            traces = [trace for some in encoded for trace in decode(some)]
            spans = [span for trace in traces for span in self._maker.spans_of(trace)]
            result = self._exporter.export(spans)
        except Exception as problem:
            # A thread that ended would end the export for good.
            log.exception("a batch of traces could not be exported")
            return f"{type(problem).__name__}: {problem}"
        return "" if result is SpanExportResult.SUCCESS else self._said.words

    def shutdown(self) -> None:
        self._exporter.shutdown()  # type: ignore[no-untyped-call]


class _LastWords(logging.Handler):
    """Keeps the last message of the library, which says in its log alone why a batch was not taken."""

    words = "it was not taken"

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING:
            self.words = record.getMessage()
