"""Trace exporter: posts finished traces to a receiver (OTLP over HTTP) in batches, from a thread.

Workers' messages wait in a bounded queue, encoded as they came. A thread makes spans of them and posts these,
with OpenTelemetry's own exporter, which compresses them and tries again after 429, 502, 503, 504 and a lost
connection, as the receiver's ``Retry-After`` says. Whatever the receiver does, requests know nothing of it:
what does not fit is dropped and counted. The log says once that a receiver fails, and once that it takes
traces again.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from random import Random
from time import monotonic
from typing import TYPE_CHECKING

from routing.ipc.control_channel import TracesFinished
from routing.master.admin.export_status import ExportState, ExportStatus
from routing.master.export_settings import ExportSettings

if TYPE_CHECKING:
    from routing.master.tracing.otlp import OtlpExporter

log = logging.getLogger(__name__)

MAX_WAITING_BYTES = 16 << 20
MAX_WAITING_SPANS = 50_000
BATCH_SPANS = 512
"""A batch is posted once it has so many."""
BATCH_EVERY_S = 1.0
"""Or after so long."""


class TraceExporter:
    """Of one master. :meth:`add` is for the event loop, and never waits."""

    def __init__(self, settings: ExportSettings, proxy: str) -> None:
        """``proxy``: the proxy's name."""
        self._settings = settings
        self._proxy = proxy
        self._lock = threading.Lock()
        self._waiting: deque[TracesFinished] = deque()
        self._waiting_spans = self._waiting_bytes = 0
        self._exported = self._over_limit = 0
        self._dropped = {"worker": 0, "queue": 0, "receiver": 0, "end": 0}
        self._state: ExportState = "waiting"
        self._problem = ""
        self._since = monotonic()
        self._wake = threading.Event()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="traces", daemon=True)
        self._thread.start()

    def add(self, message: TracesFinished) -> None:
        with self._lock:
            self._over_limit += message.over_limit
            self._dropped["worker"] += message.dropped
            if not message.spans:
                return
            size, spans = self._waiting_bytes + len(message.traces), self._waiting_spans + message.spans
            if size > MAX_WAITING_BYTES or spans > MAX_WAITING_SPANS or not self._thread.is_alive():
                self._dropped["queue"] += message.spans
                return
            self._waiting.append(message)
            self._waiting_bytes, self._waiting_spans = size, spans
        if spans >= BATCH_SPANS:
            self._wake.set()

    def status(self) -> ExportStatus:
        with self._lock:
            return ExportStatus(
                endpoint=self._settings.endpoint,
                state=self._state,
                problem=self._problem,
                for_s=monotonic() - self._since,
                exported=self._exported,
                waiting=self._waiting_spans,
                dropped=dict(self._dropped),
                over_limit=self._over_limit,
            )

    def close(self, limit_s: float) -> None:
        """Post what is left, for so long at most. Blocks. To be called once."""
        self._ending.set()
        self._wake.set()
        self._thread.join(limit_s)
        with self._lock:
            left, self._waiting_spans = self._waiting_spans, 0
            self._dropped["end"] += left
        if left:
            log.warning("%d spans were not exported: the receiver of traces did not take them in time", left)

    # --- the thread ------------------------------------------------------------------------------------

    def _run(self) -> None:
        # Imported here: whoever exports nothing needs none of it, and it takes longer than a master's start.
        from routing.master.tracing.otlp import OtlpExporter

        exporter = OtlpExporter(self._settings, self._proxy, Random())
        while not self._ending.is_set():
            self._wake.wait(BATCH_EVERY_S)
            self._wake.clear()
            self._export_all(exporter)
        self._export_all(exporter)
        exporter.shutdown()

    def _export_all(self, exporter: OtlpExporter) -> None:
        while batch := self._take():
            problem = exporter.export([message.traces for message in batch])
            spans = sum(message.spans for message in batch)
            with self._lock:
                self._waiting_spans -= spans
                if problem:
                    self._dropped["receiver"] += spans
                else:
                    self._exported += spans
            self._note(problem)

    def _take(self) -> list[TracesFinished]:
        """The next batch. Its spans count as waiting until they are posted."""
        batch: list[TracesFinished] = []
        spans = 0
        with self._lock:
            while self._waiting and spans < BATCH_SPANS:
                message = self._waiting.popleft()
                self._waiting_bytes -= len(message.traces)
                batch.append(message)
                spans += message.spans
        return batch

    def _note(self, problem: str) -> None:
        """``problem``: why the last batch was not taken; empty: it was."""
        state: ExportState = "failing" if problem else "up"
        with self._lock:
            was, self._problem = self._state, problem
            if state == was:
                return
            self._state, self._since = state, monotonic()
        if problem:
            words = "traces are dropped: the receiver %s does not take them: %s"
            log.error(words, self._settings.endpoint, problem)
        elif was == "failing":
            log.info("the receiver %s takes traces again", self._settings.endpoint)
