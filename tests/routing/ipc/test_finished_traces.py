"""Finished traces: what waits in a worker is bounded, and what did not fit is counted."""

from typing import Any

import msgspec

from routing.ipc.finished_traces import MAX_WAITING_SPANS, FinishedTrace, TraceBuffer, decode, encode


def trace(**fields: Any) -> FinishedTrace:
    values: dict[str, Any] = {
        "trace_id": b"1" * 32,
        "span_id": b"2" * 16,
        "parent_id": b"",
        "unix_offset_ns": 1,
        "started": 1.0,
        "ended": 2.0,
        "first_token": 0.0,
        "waits": [],
        "attempts": [],
        "stream": False,
        "status": 200,
        "input_tokens": 0,
        "output_tokens": 0,
    }
    texts = {name: "" for name in FinishedTrace.__struct_fields__ if name not in values}
    return FinishedTrace(**{**texts, **values, **fields})


def test_all_are_taken_once() -> None:
    buffer = TraceBuffer()
    one = trace(waits=[(1.0, 1.5)])
    buffer.add(one)
    traces, spans, dropped = buffer.take()
    assert (decode(encode(traces)), spans, dropped) == ([one], 2, 0)
    assert buffer.take() == ([], 0, 0)


def test_what_does_not_fit_is_counted() -> None:
    buffer = TraceBuffer()
    for _ in range(MAX_WAITING_SPANS + 5):
        buffer.add(trace())
    buffer.add(trace(waits=[(1.0, 1.5)]))
    traces, spans, dropped = buffer.take()
    assert (len(traces), spans, dropped) == (MAX_WAITING_SPANS, MAX_WAITING_SPANS, 7)
    assert buffer.take() == ([], 0, 0)
    assert msgspec.structs.asdict(traces[0])["status"] == 200
