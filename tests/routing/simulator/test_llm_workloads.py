"""Requests to language models: those drawn resemble the trace they were fitted to; files are checked."""

from pathlib import Path
from random import Random
from statistics import fmean

import pytest

from routing.simulator import azure_trace, mooncake_trace
from routing.simulator.estimates import estimate
from routing.simulator.fleets import UNEQUAL
from routing.simulator.llm_fleets import batching
from routing.simulator.llm_lengths import AZURE_CODE, Lengths
from routing.simulator.llm_workloads import Conversations, Replayed
from routing.simulator.prefix_cache import packed
from routing.simulator.recorded import BadTrace
from routing.simulator.requests import ANSWERED, Request
from routing.simulator.results import quantile
from routing.simulator.simulation import Setting, simulate
from routing.simulator.token_results import token_figures
from routing.simulator.workloads import Traffic

AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens\r
2023-11-16 18:15:46.6805900,374,44\r
2023-11-16 18:15:50.9951690,396,109
"""
MOONCAKE = """{"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, 2353]}
{"timestamp": 30535, "input_length": 472, "output_length": 26}

{"timestamp": 30000, "input_length": 100, "output_length": 1, "hash_ids": [46]}
"""


def written(folder: Path, text: str | bytes) -> Path:
    path = folder / "trace"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


# --- lengths -------------------------------------------------------------------------------------


def test_lengths_have_the_means_and_quantiles_of_the_trace():
    rng, lengths = Random(1), Lengths()
    drawn = [lengths.draw(rng) for _ in range(40_000)]
    prompts, outputs = (sorted(one) for one in zip(*drawn, strict=True))
    assert fmean(prompts) == pytest.approx(1155, rel=0.03)
    assert fmean(outputs) == pytest.approx(211, rel=0.03)
    for share, prompt, output in ((0.25, 396, 85), (0.5, 1020, 129), (0.9, 2735, 424), (0.99, 4142, 601)):
        assert quantile(prompts, share) == pytest.approx(prompt, rel=0.06)
        assert quantile(outputs, share) == pytest.approx(output, rel=0.06)
    # Long answers are those to prompts of about 1,000 tokens.
    by_prompt = [
        fmean(out for one, out in drawn if low <= one < high)
        for low, high in ((0, 700), (1000, 1200), (1500, 9999))
    ]
    assert by_prompt == pytest.approx([110, 407, 82], rel=0.06)


def test_lengths_of_code_completions_have_those_of_their_trace():
    rng, lengths = Random(1), Lengths(AZURE_CODE)
    drawn = [lengths.draw(rng) for _ in range(40_000)]
    prompts, outputs = (sorted(one) for one in zip(*drawn, strict=True))
    assert fmean(prompts) == pytest.approx(2048, rel=0.03)
    assert fmean(outputs) == pytest.approx(27.9, rel=0.03)
    for share, prompt, output in ((0.25, 578, 9), (0.5, 1469, 13), (0.9, 5188, 55), (0.99, 7436, 251)):
        assert quantile(prompts, share) == pytest.approx(prompt, rel=0.06)
        assert quantile(outputs, share) == pytest.approx(output, rel=0.08)
    # However long the prompt is.
    by_prompt = [fmean(out for one, out in drawn if (one < 1500) is short) for short in (True, False)]
    assert by_prompt == pytest.approx([27.9, 27.9], rel=0.06)


def test_load_is_a_share_of_what_full_batches_get_done():
    workload, fleet = Conversations(), batching(UNEQUAL)
    requests = list(workload.requests(Traffic(load=0.5, duration_s=60.0, estimate=estimate("none")), fleet))
    assert len(requests) / 60 == pytest.approx(0.5 * 34 * workload.gpu.requests_per_s(1155, 211), rel=0.03)
    assert {one.estimate for one in requests} == {0.0}


# --- trace files ---------------------------------------------------------------------------------


def test_azure_file(tmp_path):
    first, second = azure_trace.read(written(tmp_path, AZURE))
    assert (first.prompt_tokens, first.output_tokens, first.blocks) == (374, 44, ())
    assert second.at_s - first.at_s == pytest.approx(4.314579)


def test_mooncake_file_in_order_of_time(tmp_path):
    found = mooncake_trace.read(written(tmp_path, MOONCAKE))
    assert [one.at_s for one in found] == [27.482, 30.0, 30.535]
    assert [one.blocks for one in found] == [(46, 47, 2353), (46,), ()]


LINE = '{"timestamp": 1, "input_length": 2, "output_length": 3}\n'


@pytest.mark.parametrize(
    ("read", "text", "says"),
    [
        (azure_trace.read, "a,b\n1,2\n", "line 1: there is no column TIMESTAMP"),
        (
            azure_trace.read,
            AZURE.replace("ContextTokens", "Context"),
            "line 1: there is no column ContextTokens",
        ),
        (azure_trace.read, AZURE.replace("396", "39x"), "line 3, column ContextTokens: '39x' is no number"),
        (azure_trace.read, AZURE.replace("109", "-1"), "line 3, column GeneratedTokens: '-1' is no number"),
        (azure_trace.read, AZURE.replace("109", "²"), "line 3, column GeneratedTokens"),
        (azure_trace.read, AZURE.replace("109", "1" * 5000), "line 3, column GeneratedTokens"),
        (azure_trace.read, AZURE.replace("18:15:50", "noon"), "line 3, column TIMESTAMP"),
        (azure_trace.read, AZURE + "2023-11-16 18:15:51", "line 4: there are 1 values, not 3"),
        (azure_trace.read, AZURE.splitlines()[0], "there is no request in it"),
        (azure_trace.read, LINE, "read it as a mooncake trace"),
        (azure_trace.read, "version https://git-lfs.github.com/spec/v1\noid", "git lfs pull"),
        (azure_trace.read, b"\x1f\x8b\xff\xfe", "not text in UTF-8; unpack it"),
        (mooncake_trace.read, LINE + "{", "line 2: it is no JSON object"),
        (mooncake_trace.read, LINE + "[1]\n", "line 2: Expected `object`"),
        (mooncake_trace.read, LINE + '{"timestamp": 1}', "line 2, field input_length: it is missing; give"),
        (mooncake_trace.read, LINE.replace("2", '"2"'), "line 1, field input_length: Expected `int`"),
        (mooncake_trace.read, LINE.replace("3", "-3"), "line 1, field output_length: Expected `int` >= 0"),
        (mooncake_trace.read, LINE.replace("3}", '3, "hash_ids": [1, -1]}'), "line 1, field hash_ids"),
        (mooncake_trace.read, LINE.replace("3}", f'3, "hash_ids": [{2**64}]}}'), "line 1, field hash_ids"),
        (mooncake_trace.read, LINE.replace("1,", "-1,"), "line 1, field timestamp"),
        (mooncake_trace.read, "\n\n", "there is no request in it"),
        (mooncake_trace.read, AZURE, "read it as an azure trace"),
        (mooncake_trace.read, "version https://git-lfs.github.com/spec/v1\noid", "git lfs pull"),
    ],
)
def test_wrong_files_are_refused_with_place_and_cure(tmp_path, read, text, says):
    path = written(tmp_path, text)
    with pytest.raises(BadTrace) as refused:
        read(path)
    assert str(refused.value).startswith(str(path))
    assert says in str(refused.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(BadTrace, match="nowhere cannot be read: No such file or directory; give the path"):
        azure_trace.read(tmp_path / "nowhere")


def test_a_trace_is_replayed_at_the_load_that_is_asked_for(tmp_path):
    row = '{"timestamp": %d, "input_length": 1000, "output_length": 20, "hash_ids": [%d]}\n'
    rows = (row % (90_000 + at * 700, at % 3) for at in range(500))
    recorded = mooncake_trace.read(written(tmp_path, "".join(rows)))
    workload, fleet = Replayed(name="mooncake", sentence="", recorded=recorded), batching(UNEQUAL)
    requests = list(workload.requests(Traffic(load=0.5, duration_s=1e9), fleet))
    rate = 0.5 * 34 * workload.gpu.requests_per_s(1000, 20)
    assert requests[-1].at_s == pytest.approx(500 / rate)
    assert requests[250].at_s == pytest.approx(250 / rate, rel=0.01)
    assert requests[4].key == packed((1,))
    assert len(list(workload.requests(Traffic(load=0.5, duration_s=requests[100].at_s), fleet))) == 100


# --- runs ----------------------------------------------------------------------------------------


def test_a_run_repeats_exactly_and_counts_every_token():
    setting = Setting(fleet=batching(UNEQUAL), workload=Conversations(), traffic=Traffic(duration_s=3.0))
    one, two = (simulate(setting, "least_expected_work") for _ in range(2))
    assert one.latencies == two.latencies
    assert one.picked == two.picked
    assert {request.end for request in one.requests} == {ANSWERED}
    assert all(request.tokens == request.output_tokens for request in one.requests)
    other = Setting(
        fleet=batching(UNEQUAL), workload=Conversations(), traffic=Traffic(duration_s=3.0, seed=2)
    )
    assert simulate(other, "least_expected_work").latencies != one.latencies


def answered(at_s: float, first_s: float, ended_s: float, tokens: int) -> Request:
    request = Request(at_s)
    request.first_byte_s, request.ended_s, request.tokens, request.end = first_s, ended_s, tokens, ANSWERED
    return request


def test_figures_of_tokens():
    requests = [answered(10.0, 11.0, 15.0, 5), answered(20.0, 20.5, 20.5, 1), Request(30.0)]
    figures = token_figures(requests)
    assert figures == pytest.approx((1.0, 1.0, 1.0))
    assert token_figures([Request(1.0)]) is None
