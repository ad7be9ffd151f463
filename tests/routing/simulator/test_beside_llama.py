"""What the bench beside llama.cpp stands on: requests of given servers, costs by CPU seconds, CPU shares."""

import pytest

from routing.contract.policy import Policy
from routing.simulator.gpus import Gpu
from tests.benchmarks.llama import simulated, trace
from tests.benchmarks.llama.cpu_shares import CpuShare, NoControlGroups

GPU = Gpu(0.0003, 0.0004, 3e-6, 0.00014, batch=8, kv_tokens=4096)
SPEEDS = {"fast": 0.12, "slow": 0.03}


def test_servers_with_the_requests_of_others_take_as_long():
    jobs = trace.drawn(GPU, sum(SPEEDS.values()), 0.6, 60.0, 1)
    real = simulated.behind_a_proxy(GPU, SPEEDS, jobs, Policy(slow_start_s=0.0))
    alone, used_s = simulated.servers_alone(GPU, SPEEDS, jobs, real)
    assert [one.ended_s for one in alone] == pytest.approx([one.ended_s for one in real])
    assert [one.first_s for one in alone] == pytest.approx([one.first_s for one in real])
    # Of a server whose core was slower than it was thought to be.
    slower = simulated.at_cpu_s(GPU, SPEEDS, jobs, real, 1.2 * used_s)
    assert simulated.servers_alone(slower, SPEEDS, jobs, real)[1] == pytest.approx(1.2 * used_s, rel=0.01)
    assert slower.step_s / slower.sequence_s == pytest.approx(GPU.step_s / GPU.sequence_s)


def test_a_share_is_a_quota_in_both_versions_of_control_groups(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    (one / "cpu").mkdir(parents=True)
    two.mkdir()
    (two / "cgroup.controllers").write_text("cpu")
    CpuShare("r1", 0.05, one).hold(7)
    CpuShare("r1", 0.05, two).hold(7)
    (first,), (second,) = (one / "cpu").iterdir(), two.glob("switchyard-*")
    assert (first / "cpu.cfs_period_us").read_text() == "20000"
    assert (first / "cpu.cfs_quota_us").read_text() == "1000"
    assert (second / "cpu.max").read_text() == "1000 20000"
    assert {(folder / "cgroup.procs").read_text() for folder in (first, second)} == {"7"}


def test_where_they_cannot_be_limited_it_is_said(tmp_path):
    with pytest.raises(NoControlGroups, match="run it as root on Linux"):
        CpuShare("r1", 0.05, tmp_path / "none")
