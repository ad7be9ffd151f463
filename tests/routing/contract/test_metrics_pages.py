"""What is read of a model server's page of its own load, and what is not."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.contract.load_report import ReportedLoad
from routing.contract.metrics_pages import ANY, MAX_PAGE_BYTES, MAX_SAMPLES, PAGES, NoLoadFigures, load_query
from routing.contract.probe import Probe
from routing.contract.probe_presets import PRESETS, checks_of

VLLM = b"""\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="meta-llama/Llama-3.1-8B-Instruct"} 12.0
vllm:num_requests_waiting{engine="0",model_name="meta-llama/Llama-3.1-8B-Instruct"} 3.0
vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 99.0
vllm:kv_cache_usage_perc{engine="0",model_name="meta-llama/Llama-3.1-8B-Instruct"} 0.8125
vllm:num_requests_running_total 999.0
"""


def read(preset: str, page: bytes, model: str = "m") -> ReportedLoad:
    return PAGES[preset].read(page, model)


@pytest.mark.parametrize(
    ("preset", "page", "load"),
    [
        ("vllm", VLLM, ReportedLoad(running=12, waiting=3, kv_share=0.8125)),
        ("vllm", b"vllm:gpu_cache_usage_perc 0.5", ReportedLoad(kv_share=0.5)),
        (
            "vllm",
            # Two engines of one server: requests add up, the fuller memory counts.
            b'vllm:num_requests_running{engine="0"} 4.0\nvllm:num_requests_running{engine="1"} 2.0\n'
            b'vllm:kv_cache_usage_perc{engine="0"} 0.25\nvllm:kv_cache_usage_perc{engine="1"} 0.75\n',
            ReportedLoad(running=6, kv_share=0.75),
        ),
        (
            "vllm",
            b'vllm:num_requests_running{model_name="a} 7 \\" b"} 1\r\n'
            b"vllm:num_requests_waiting\t2 17000000\r\n",
            ReportedLoad(running=1, waiting=2),
        ),
        (
            "sglang",
            b'sglang:num_running_reqs{tp_rank="0"} 5.0\nsglang:num_running_reqs{tp_rank="1"} 5.0\n'
            b'sglang:num_queue_reqs{priority=""} 3.0\nsglang:num_queue_reqs{priority="1"} 2.0\n'
            b"sglang:token_usage 0.37\n",
            ReportedLoad(running=5, waiting=3, kv_share=0.37),
        ),
        ("tgi", b"tgi_batch_current_size 8\ntgi_queue_size 2\n", ReportedLoad(running=8, waiting=2)),
        (
            "llama.cpp",
            b"llamacpp:requests_processing 1\nllamacpp:requests_deferred 4\nllamacpp:n_decode_total 7\n",
            ReportedLoad(running=1, waiting=4),
        ),
        (
            "triton",
            b'nv_inference_pending_request_count{model="m",version="1"} 3\n'
            b'nv_inference_pending_request_count{model="other",version="1"} 40\n'
            b'nv_gpu_memory_used_bytes{gpu_uuid="a"} 2e9\nnv_gpu_memory_used_bytes{gpu_uuid="b"} 4e9\n'
            b'nv_gpu_memory_total_bytes{gpu_uuid="a"} 8e9\nnv_gpu_memory_total_bytes{gpu_uuid="b"} 8e9\n',
            ReportedLoad(waiting=3, memory_share=0.375, memory_bytes=6_000_000_000),
        ),
        (
            "ollama",
            b'{"models":[{"name":"m:latest","size":9,"size_vram":7},{"name":"x:latest","size_vram":5}]}',
            ReportedLoad(memory_bytes=7),
        ),
        ("ollama", b'{"models":[]}', ReportedLoad(memory_bytes=0)),
    ],
)
def test_the_figures_of_each_server(preset: str, page: bytes, load: ReportedLoad) -> None:
    assert read(preset, page) == load


def test_a_page_of_an_unknown_server_may_have_any_servers_names() -> None:
    page = b'bentoml_service_request_in_progress{service_name="s"} 2\npython_gc_objects 7\n'
    assert ANY.read(page, "m") == ReportedLoad(running=2)
    assert ANY.read(VLLM, "m") == read("vllm", VLLM)


@pytest.mark.parametrize(
    "value", ["NaN", "+Inf", "-1", "1e9", "1_0", "", "three", "0x10", "1e9999", "٣", '" 3'], ids=ascii
)
def test_what_is_no_number_of_requests_is_not_known_and_the_rest_is(value: str) -> None:
    page = f"tgi_batch_current_size {value}\ntgi_queue_size 2\n".encode()
    assert read("tgi", page) == ReportedLoad(waiting=2)


@pytest.mark.parametrize("value", ["1.5", "-0.1", "81", "NaN"])
def test_a_share_is_from_0_to_1(value: str) -> None:
    page = f"sglang:token_usage {value}\nsglang:num_queue_reqs 2\n".encode()
    assert read("sglang", page) == ReportedLoad(waiting=2)


@pytest.mark.parametrize(
    ("preset", "page", "words"),
    [
        ("tgi", b"<html>not here</html>", "the page has none of tgi_batch_current_size, tgi_queue_size"),
        ("tgi", b"tgi_queue_size NaN\n", "the load metrics on the page are not valid numbers"),
        (
            "tgi",
            b"tgi_queue_size 1\n" * (MAX_SAMPLES + 1),
            f"more than {MAX_SAMPLES} samples of load metrics",
        ),
        ("ollama", b'{"error": "no"}', "the page is not a list of loaded models"),
        (
            "ollama",
            b'{"models":[{"name":"m:latest","size_vram":-1}]}',
            "the memory size on the page is not a valid number",
        ),
    ],
)
def test_a_page_without_figures_is_told_in_words(preset: str, page: bytes, words: str) -> None:
    with pytest.raises(NoLoadFigures, match=words):
        read(preset, page)


def test_a_line_that_the_limit_cuts_off_does_not_count() -> None:
    begin = b"vllm:num_requests_waiting 2\n"
    end = b"\nvllm:num_requests_running 1"
    page = begin + b"#" * (MAX_PAGE_BYTES - len(begin) - len(end)) + end
    assert len(page) == MAX_PAGE_BYTES
    assert read("vllm", page) == ReportedLoad(waiting=2)


@pytest.mark.parametrize(
    "line",
    [
        b'vllm:request_latency_seconds_bucket{le="0.5",model_name="m"} 17\n',
        b'vllm:num_requests_running{model_name="',
        b"vllm:num_requests_running{{{{",
        b"\n",
    ],
)
def test_a_large_page_takes_no_time(line: bytes) -> None:
    page = (line * (MAX_PAGE_BYTES // len(line)))[: MAX_PAGE_BYTES - 40] + b"\nvllm:num_requests_waiting 2\n"
    began = time.process_time()
    assert read("vllm", page) == ReportedLoad(waiting=2)
    assert time.process_time() - began < 1.0  # some 10 ms; what backtracks takes minutes


pages = st.lists(
    st.sampled_from(
        [*VLLM.splitlines(keepends=True), b"tgi_queue_size", b'{le="', b'"} 7\n', b"\\", b" NaN\n"]
    )
    | st.binary(max_size=9)
).map(b"".join)


@given(st.sampled_from([*PAGES.values(), ANY]), pages)
def test_whatever_stands_there_figures_are_what_they_can_be(page: object, body: bytes) -> None:
    try:
        load = page.read(body, "m")  # type: ignore[attr-defined]
    except NoLoadFigures:
        return
    assert load != ReportedLoad()
    assert all(number is None or number >= 0 for number in (load.running, load.waiting, load.memory_bytes))
    assert all(each is None or 0 <= each <= 1 for each in (load.kv_share, load.memory_share))


# --- where it is ---


@pytest.mark.parametrize(
    ("probe", "url", "asked"),
    [
        (Probe(preset="vllm"), "http://h:8000", ("http://h:8000", "/metrics")),
        (Probe(preset="vllm"), "http://h:8000/base", ("http://h:8000/base", "/base/metrics")),
        (Probe(preset="triton"), "http://h:8000/base", ("http://h:8002", "/metrics")),
        (Probe(preset="triton"), "https://[::1]:8000", ("https://[::1]:8002", "/metrics")),
        (Probe(preset="triton", metrics_port=9), "http://h:8000", ("http://h:9", "/metrics")),
        (Probe(preset="tgi", metrics_path="/m?x=1"), "http://h:8000", ("http://h:8000", "/m?x=1")),
        (Probe(preset="ollama"), "http://h:11434", ("http://h:11434", "/api/ps")),
        (Probe(preset="http", path="/h", metrics_path="/m"), "http://h:1", ("http://h:1", "/m")),
        (Probe(preset="mlserver", metrics_path="/m", metrics_port=2), "http://h:1", ("http://h:2", "/m")),
        (Probe(preset="vllm", load_reports=False), "http://h:8000", None),
        (Probe(preset="http", path="/h"), "http://h:8000", None),
        (Probe(preset="mlserver"), "http://h:8000", None),
        (Probe(), "http://h:8000", None),
    ],
)
def test_where_the_page_is(probe: Probe, url: str, asked: tuple[str, str] | None) -> None:
    question = checks_of(probe, "openai", url, "m").load
    assert (None if question is None else (question.url, question.path)) == asked
    assert question is None or load_query(probe, url, "m") == question


def test_pages_are_of_known_presets() -> None:
    assert PAGES.keys() <= PRESETS.keys()
