"""The field ``endpoint-load-metrics``: what servers write there, and what is refused."""

import time

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.contract.load_report import ReportedLoad, decode_stored, encode_report
from routing.contract.orca_header import MAX_BYTES, MAX_FIGURES, parse

ALL = ReportedLoad(
    running=4, waiting=2, kv_share=0.5, memory_share=0.8, utilization=0.25, requests_per_s=10.5
)


@pytest.mark.parametrize(
    ("field", "load"),
    [
        # Triton's manual, "ORCA header metrics".
        (
            b"TEXT cpu_utilization=0.3, mem_utilization=0.8, rps_fractional=10.0, eps=1, named_metrics.x=0.4",
            ReportedLoad(memory_share=0.8, utilization=0.3, requests_per_s=10.0),
        ),
        (
            b'JSON {"cpu_utilization": 0.3, "mem_utilization": 0.8, "rps_fractional": 10.0, "eps": 1, '
            b'"named_metrics": {"custom-metric-util": 0.4}}',
            ReportedLoad(memory_share=0.8, utilization=0.3, requests_per_s=10.0),
        ),
        (
            b"TEXT named_metrics.kv_cache_utilization=0.25,named_metrics.max_token_capacity=1024",
            ReportedLoad(kv_share=0.25),
        ),
        # vLLM, with the word and (its newer frontend) without.
        (
            b"TEXT named_metrics.kv_cache_usage_perc=0.4,named_metrics.num_requests_waiting=3.0",
            ReportedLoad(kv_share=0.4, waiting=3),
        ),
        (
            b'{"named_metrics":{"kv_cache_usage_perc":0.75,"num_requests_waiting":3}}',
            ReportedLoad(kv_share=0.75, waiting=3),
        ),
        (b"named_metrics.kv_cache_usage_perc=0.75", ReportedLoad(kv_share=0.75)),
        (b"text application_utilization=1.5,cpu_utilization=0.2", ReportedLoad(utilization=1.5)),
        (b"json {}", None),
        (
            b"TEXT named_metrics.num_requests_running=4,named_metrics.num_requests_waiting=2,"
            b"mem_utilization=.8,utilization.kv_cache_usage_perc=5e-1,application_utilization=.25,rps_fractional=10.5",
            ALL,
        ),
    ],
)
def test_both_forms(field: bytes, load: ReportedLoad | None) -> None:
    assert parse(field) == load


@pytest.mark.parametrize(
    "field",
    [
        b"",
        b"TEXT",
        b"TEXT mem_utilization",
        b"TEXT mem_utilization=",
        b"TEXT mem_utilization=0.8,",
        b"TEXT mem_utilization=0.8,mem_utilization=0.9",
        b"TEXT mem_utilization=0.8,rps_fractional=NaN",
        b"TEXT mem_utilization=0.8,rps_fractional=1_0",
        b"TEXT =1",
        b"TEXT mem_utilization=0.8;rps_fractional=1",
        b"BIN CZqZmZmZmbk/",
        b'JSON {"mem_utilization": "0.8"}',
        b'JSON {"mem_utilization": 0.8',
        b'JSON {"named_metrics": {"a": {"b": 1}}, "mem_utilization": 0.8}',
        b"JSON [0.8]",
        b"JSON " + b'{"a":' * 2000,
        b"TEXT mem_utilization=0.8," + b"x=1" + b" " * MAX_BYTES,
        b"TEXT mem_utilization=0.8," + b",".join(b"x%d=1" % number for number in range(MAX_FIGURES)),
        b"TEXT mem_utilization=-0.1",
        b"TEXT mem_utilization=1.1",
        b"TEXT named_metrics.num_requests_waiting=1e12",
        b"JSON " + b"\xff",
    ],
)
def test_what_is_not_in_order_is_refused(field: bytes) -> None:
    assert parse(field) is None


pieces = [b"TEXT ", b"JSON ", b"{", b"}", b'"named_metrics":', b"mem_utilization", b"=", b",", b"0.5", b" "]


@given(st.lists(st.sampled_from(pieces) | st.binary(max_size=5)).map(b"".join))
def test_whatever_stands_there_figures_are_what_they_can_be(field: bytes) -> None:
    load = parse(field)
    if load is not None:
        assert load != ReportedLoad()
        assert load.memory_share is None or 0 <= load.memory_share <= 1
        assert msgspec.json.decode(encode_report(load), type=ReportedLoad) == load


def test_a_report_is_kept_with_its_age() -> None:
    now_ms = int(time.time() * 1000)
    stored = b"%d " % (now_ms - 2500) + encode_report(ALL)
    assert decode_stored(stored, now_ms) == msgspec.structs.replace(ALL, age_s=2.5)
    assert decode_stored(b"%d " % (now_ms + 9) + encode_report(ALL), now_ms) == ALL
    assert decode_stored(b"x " + encode_report(ALL), now_ms) is None
    assert decode_stored(b"17 {", now_ms) is None
