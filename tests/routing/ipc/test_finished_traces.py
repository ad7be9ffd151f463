"""Finished traces: what waits in a worker is bounded, and what did not fit is counted."""

import msgspec

from routing.ipc.finished_traces import MAX_WAITING_SPANS, TraceBuffer, decode, encode
from tests.routing.ipc.finished import finished_trace


def test_all_are_taken_once() -> None:
    buffer = TraceBuffer()
    one = finished_trace(waits=[(1.0, 1.5)])
    buffer.add(one)
    traces, spans, dropped = buffer.take()
    assert (decode(encode(traces)), spans, dropped) == ([one], 2, 0)
    assert buffer.take() == ([], 0, 0)


def test_what_does_not_fit_is_counted() -> None:
    buffer = TraceBuffer()
    for _ in range(MAX_WAITING_SPANS + 5):
        buffer.add(finished_trace())
    buffer.add(finished_trace(waits=[(1.0, 1.5)]))
    traces, spans, dropped = buffer.take()
    assert (len(traces), spans, dropped) == (MAX_WAITING_SPANS, MAX_WAITING_SPANS, 7)
    assert buffer.take() == ([], 0, 0)
    assert msgspec.structs.asdict(traces[0])["status"] == 200
