"""Trace context: traces that the proxy begins are distinct, valid, and sampled as asked."""

from itertools import islice

import pytest

from routing.http.trace_context import TRACEPARENT, trace_id, trace_parents


@pytest.mark.parametrize(("percent", "share"), [(0.0, 0.0), (2.0, 0.02), (30.0, 0.3), (100.0, 1.0)])
def test_begun_traces_are_distinct_and_valid(percent: float, share: float) -> None:
    begun = list(islice(trace_parents(percent), 20_000))
    values = [field.removeprefix(b"\r\ntraceparent: ") for field in begun]
    assert all(TRACEPARENT.match(value) for value in values)
    ids = [trace_id(None, field) for field in begun]
    assert [value.split(b"-")[1] for value in values] == ids
    assert len(set(ids)) == len(values)
    sampled = sum(value.endswith(b"-01") for value in values)
    assert sampled == pytest.approx(share * len(values), rel=0.2)
