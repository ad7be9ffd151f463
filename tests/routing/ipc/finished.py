"""Finished traces for tests."""

from typing import Any

from routing.ipc.finished_traces import FinishedAttempt, FinishedTrace


def finished_trace(**fields: Any) -> FinishedTrace:
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


def finished_attempt(**fields: Any) -> FinishedAttempt:
    values: dict[str, Any] = {
        "span_id": b"3" * 16,
        "started": 1.0,
        "ended": 2.0,
        "replica": "a",
        "host": "10.0.0.1",
        "port": 8000,
        "outcome": "success",
        "status": 200,
        "reason": "",
    }
    return FinishedAttempt(**{**values, **fields})
