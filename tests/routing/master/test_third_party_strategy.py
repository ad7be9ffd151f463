"""A strategy of another package in real proxies and in the control plane's process."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from routing.contract.policy import Policy
from tests.packages import install, install_example
from tests.proxy_process import ROOT, Proxy, Publisher, Replica, fleet_file, snapshot, until

ALWAYS_B = """
import msgspec

class AlwaysB:
    name = "always_b"
    sentence = "Picks b."
    weighs_waiting = False
    Parameters = type("Parameters", (msgspec.Struct,), {})
    memory = None
    affinity = None

    def __init__(self, parameters):
        pass

    def pick(self, candidates, work, now, rng):
        return max(candidates, key=lambda replica: replica.name)
"""


def test_a_proxy_picks_by_it(
    tmp_path: Path, replicas: list[Replica], proxy: Callable[..., Proxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = tmp_path / "packages"
    install_example(packages)
    install(packages, "always-b", {"always_b": "always_b:AlwaysB"}, {"always_b": ALWAYS_B})
    monkeypatch.setenv("PYTHONPATH", str(packages))
    file = fleet_file(tmp_path / "fleets.yaml", replicas, policy={"strategy": "always_b"})
    running = proxy("--fleets", str(file), "--workers", "1").ready()
    assert {running.get() for _ in range(8)} == {(200, "b")}

    parameters = {"strategy": "least_outstanding_work", "parameters": {"request_work": -1}}
    fleet_file(file, replicas, policy=parameters)
    until(lambda: "must be between 0 and 1e+09, not -1" in running.log, "the log names the parameter")
    parameters["parameters"] = {"request_work": 1}
    fleet_file(file, replicas, policy=parameters)
    until(lambda: {running.get() for _ in range(8)} == {(200, "a"), (200, "b")}, "both are picked")


def test_a_proxy_without_the_package_keeps_its_table_and_says_what_to_do(
    replicas: list[Replica], proxy: Callable[..., Proxy], publisher: Publisher, redis_url: str
) -> None:
    publisher.manifest(1)
    publisher.fleet(snapshot(1, replicas))
    running = proxy("--redis", redis_url, "--workers", "1").ready()
    publisher.manifest(2, fleets={"echo": 2})
    publisher.fleet(snapshot(2, replicas, policy=Policy(strategy="always_b")))

    def refused() -> str:
        return next((ack.refused for ack in publisher.acks().values()), "")

    why = until(refused, "the worker refuses the table")
    assert "there is no strategy 'always_b'" in why
    assert "install the package that brings it here, too, and restart" in why
    assert {running.get()[0] for _ in range(8)} == {200}


def test_the_control_plane_lists_it_and_checks_its_parameters(tmp_path: Path) -> None:
    """In a process of its own, since what is installed is looked for once."""
    install_example(tmp_path)
    program = """
import json, django
django.setup()
from controlplane.api.strategies import StrategyList
from controlplane.api.request_schemas import POLICY_CHANGES
from controlplane.services.validation import STRATEGIES
from routing.contract.policy_rules import check_policy
listed = StrategyList().get(None).data
policy = {"strategy": "least_outstanding_work"}
wrong = check_policy(policy | {"parameters": {"request_work": -1}}, STRATEGIES)[1]
right = check_policy(policy | {"parameters": {"request_work": 2}}, STRATEGIES)[1]
enum = POLICY_CHANGES["application/json"]["properties"]["strategy"]["enum"]
print(json.dumps([listed[-1], [[p.pointer, p.message] for p in wrong], right, enum[-1]]))
"""
    environment = os.environ | {
        "PYTHONPATH": str(tmp_path),
        "DJANGO_SETTINGS_MODULE": "controlplane.settings",
    }
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    listed, wrong, right, last = json.loads(done.stdout)
    assert (listed["name"], last) == ("least_outstanding_work", "least_outstanding_work")
    assert listed["sentence"]
    (parameter,) = listed["parameters"]
    assert (parameter["name"], parameter["type"], parameter["minimum"]) == ("request_work", "number", 0.0)
    assert [pointer for pointer, _ in wrong] == ["/parameters/request_work"]
    assert right == []
