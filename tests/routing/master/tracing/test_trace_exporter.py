"""Trace exporter: what waits is bounded, what cannot be read is dropped, and nothing stops its thread."""

from collections.abc import Iterator

import pytest

from routing.ipc.control_channel import TracesFinished
from routing.ipc.finished_traces import encode
from routing.master.export_settings import from_environment
from routing.master.tracing import trace_exporter
from routing.master.tracing.trace_exporter import TraceExporter
from tests.otlp_receiver import Receiver
from tests.proxy_process import until
from tests.routing.ipc.finished import finished_trace


@pytest.fixture
def exporter(receiver: Receiver) -> Iterator[TraceExporter]:
    settings = from_environment({"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url}, 50.0)
    assert settings is not None
    one = TraceExporter(settings, "p")
    yield one
    receiver.held.set()
    one.close(5.0)


def message(count: int, dropped: int = 0, over_limit: int = 0) -> TracesFinished:
    traces = encode([finished_trace() for _ in range(count)])
    return TracesFinished(traces=traces, spans=count, dropped=dropped, over_limit=over_limit)


def test_spans_that_wait_are_bounded(
    receiver: Receiver, exporter: TraceExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_exporter, "MAX_WAITING_SPANS", 1000)
    receiver.held.clear()
    for _ in range(4):
        exporter.add(message(300, dropped=2, over_limit=3))
    status = exporter.status()
    assert status.waiting == 900
    assert status.dropped == {"worker": 8, "queue": 300, "receiver": 0, "end": 0}
    assert status.over_limit == 12
    receiver.held.set()
    until(lambda: exporter.status().exported == 900, "the others are exported")
    assert exporter.status().waiting == 0
    assert len(receiver.spans) == 900


def test_bytes_that_wait_are_bounded(
    receiver: Receiver, exporter: TraceExporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_exporter, "MAX_WAITING_BYTES", 2 * len(message(10).traces))
    receiver.held.clear()
    for _ in range(3):
        exporter.add(message(10))
    assert exporter.status().dropped["queue"] == 10
    receiver.held.set()
    until(lambda: exporter.status().exported == 20, "the others are exported")
    exporter.add(message(10))
    until(lambda: exporter.status().exported == 30, "there is room again")


def test_what_cannot_be_read_is_dropped(receiver: Receiver, exporter: TraceExporter) -> None:
    exporter.add(TracesFinished(traces=b"\xc1", spans=5, dropped=0, over_limit=0))
    until(lambda: exporter.status().state == "failing", "it is known")
    assert exporter.status().dropped["receiver"] == 5
    exporter.add(message(1))
    until(lambda: exporter.status().state == "up", "the next ones are exported")
    assert len(receiver.spans) == 1


def test_a_batch_has_a_bound(receiver: Receiver, exporter: TraceExporter) -> None:
    receiver.held.clear()
    exporter.add(message(600))
    until(lambda: receiver.posts, "a batch is posted at once")
    for _ in range(6):
        exporter.add(message(200))
    receiver.held.set()
    until(lambda: len(receiver.spans) == 1800, "all are exported")
    assert len(receiver.posts) == 3
