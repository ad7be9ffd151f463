"""OTLP: OpenTelemetry's own exporter, as the settings say. Imports what few proxies need."""

import logging
from collections.abc import Sequence
from random import Random
from typing import Any

import requests
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace.export import SpanExportResult

from routing.ipc.finished_traces import decode
from routing.master.export_settings import ExportSettings
from routing.master.tracing.spans import SpanMaker, resource_of

log = logging.getLogger(__name__)

_MOST_WORDS = 300
"""Characters."""


class OtlpExporter:
    """Exports traces to one receiver. Of one thread, and the only one of its process."""

    def __init__(self, settings: ExportSettings, proxy: str, random: Random) -> None:
        """``proxy``: the proxy's name."""
        # It says of each batch what is said here once.
        logging.getLogger(OTLPSpanExporter.__module__).disabled = True
        self._session = _Session()
        self._maker = SpanMaker(resource_of(settings.service, proxy, settings.resource), random)
        self._exporter = OTLPSpanExporter(
            settings.endpoint,
            certificate_file=settings.certificate,
            client_key_file=settings.client_key,
            client_certificate_file=settings.client_certificate,
            session=self._session,
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
        return "" if result is SpanExportResult.SUCCESS else self._session.problem

    def shutdown(self) -> None:
        self._exporter.shutdown()  # type: ignore[no-untyped-call]


class _Session(requests.Session):
    """Keeps why a post was not taken, which the library says in its log alone, and not always."""

    problem = ""

    def request(self, *arguments: Any, **options: Any) -> requests.Response:
        if isinstance(self.verify, str):
            # Of a session alone, REQUESTS_CA_BUNDLE or CURL_CA_BUNDLE in the environment would go before it.
            options.setdefault("verify", self.verify)
        try:
            response = super().request(*arguments, **options)
        except requests.RequestException as problem:
            self.problem = _in_words(problem)
            raise
        if not response.ok:
            self.problem = f"it answers {response.status_code}"
        return response


def _in_words(problem: requests.RequestException) -> str:
    """What the system says, if that was asked: the rest is about classes of the library."""
    cause: BaseException | None = problem
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
        cause = cause.__cause__ or cause.__context__
    if isinstance(problem, requests.Timeout):
        return "it does not answer in time"
    return str(problem)[:_MOST_WORDS]
