"""Conversations whose turns begin alike: what arrives, and what of it servers find kept."""

from itertools import pairwise

import pytest

from routing.simulator.catalogue import replayed
from routing.simulator.fleets import UNEQUAL
from routing.simulator.llm_fleets import batching
from routing.simulator.shared_beginnings import SharedBeginnings
from routing.simulator.simulation import Setting, simulate
from routing.simulator.text import table
from routing.simulator.token_results import cached_share, figures
from routing.simulator.workloads import BIMODAL, Traffic


@pytest.fixture
def setting():
    workload = SharedBeginnings()
    fleet = batching(UNEQUAL, weights=False, block_tokens=workload.block_tokens)
    return Setting(fleet=fleet, workload=workload, traffic=Traffic(load=0.85, duration_s=8.0))


def test_each_turn_begins_with_all_before_it(setting):
    requests = list(setting.workload.requests(Traffic(load=0.2, duration_s=60.0), setting.fleet))
    assert [one.at_s for one in requests] == sorted(one.at_s for one in requests)
    assert all(len(one.key) // 8 == one.prompt_tokens // 64 for one in requests)
    by_session = {}
    for one in requests:
        by_session.setdefault(one.session, []).append(one)
    assert len({one.key[: 8 * 32] for one in requests}) <= 32
    for turns in by_session.values():
        for before, after in pairwise(turns):
            assert after.key.startswith(before.key)
            assert after.prompt_tokens > before.prompt_tokens + before.output_tokens


def test_load_is_of_whole_prompts_and_the_same_from_the_start(setting):
    requests = list(setting.workload.requests(Traffic(load=0.5, duration_s=200.0), setting.fleet))
    prompt = sum(one.prompt_tokens for one in requests) / len(requests)
    output = sum(one.output_tokens for one in requests) / len(requests)
    capacity = 34 * setting.workload.gpu.requests_per_s(prompt, output)
    assert len(requests) / 200 == pytest.approx(0.5 * capacity, rel=0.1)
    assert sum(one.at_s < 50 for one in requests) == pytest.approx(len(requests) / 4, rel=0.15)


def test_affinity_finds_more_kept_and_sessions_stay_together(setting):
    results = [
        simulate(setting, name) for name in ("prefix_affinity", "consistent_hash", "least_expected_work")
    ]
    prefix, session, spread = (figures(result) for result in results)
    assert prefix["cached_share"] > spread["cached_share"] + 0.1
    assert session["cached_share"] > spread["cached_share"] + 0.03
    assert prefix["mean_s"] < spread["mean_s"]
    assert f"{prefix['cached_share']:.1%}" in table(results)
    assert simulate(setting, "prefix_affinity").latencies == results[0].latencies


def test_blocks_of_a_mooncake_trace_are_found_kept(tmp_path):
    row = '{"timestamp": %d, "input_length": 1500, "output_length": 20, "hash_ids": [%d, %d]}\n'
    (tmp_path / "trace").write_text("".join(row % (at * 100, at % 3, 10 + at) for at in range(200)))
    workload = replayed("mooncake", tmp_path / "trace")
    fleet = batching([1.0] * 3, block_tokens=workload.block_tokens)
    setting = Setting(fleet=fleet, workload=workload, traffic=Traffic(load=0.5, duration_s=1e6))
    kept = cached_share(simulate(setting, "prefix_affinity").requests)
    assert kept is not None
    # One of nearly three blocks.
    assert 0.9 * 512 / 1500 < kept < 512 / 1500


def test_without_beginnings_there_is_no_such_column(run):
    result = run("least_expected_work", workload=BIMODAL)
    assert cached_share(result.requests) is None
    assert "cached" not in table([result])
    assert "cached_share" not in figures(result)
