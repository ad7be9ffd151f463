"""A seed is a run: the same in every process, with the same requests for every strategy."""

import os
import subprocess
import sys

from routing.simulator.fleets import UNEQUAL, fixed_slots
from routing.simulator.simulation import Setting, simulate
from routing.simulator.workloads import BIMODAL, Traffic

PRINT_RUN = """
from routing.simulator.fleets import UNEQUAL, fixed_slots
from routing.simulator.simulation import Setting, simulate
from routing.simulator.workloads import BIMODAL, Traffic

setting = Setting(fleet=fixed_slots(UNEQUAL), workload=BIMODAL, traffic=Traffic(duration_s=1.0), proxies=3)
result = simulate(setting, "power_of_two")
print(result.latencies, sorted(result.picked.items()))
"""


def run(hash_seed: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", PRINT_RUN],
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout


def test_the_same_in_every_process():
    assert run("1") == run("2") != ""


def test_every_strategy_sees_the_same_requests_and_another_seed_others():
    def trace(strategy: str, seed: int) -> list[tuple[float, float, float]]:
        traffic = Traffic(duration_s=0.5, seed=seed)
        setting = Setting(fleet=fixed_slots(UNEQUAL), workload=BIMODAL, traffic=traffic)
        return [(one.at_s, one.seconds, one.estimate) for one in simulate(setting, strategy).requests]

    assert trace("random", 1) == trace("least_expected_work", 1) == trace("central_fifo", 1)
    assert trace("random", 1) != trace("random", 2)
