"""What this host lacks for a connection is no fault of the replica."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

_ROOT = Path(__file__).parents[3]
_PYTHON = [sys.executable, "-m", "tests.routing.proxy.without_local_ports"]
_NAMESPACE = ["unshare", "--map-root-user", "--net"]


@pytest.fixture(scope="module")
def seen() -> dict[str, Any]:
    """By the client of a proxy in a network namespace with two local ports."""
    if not shutil.which("unshare") or subprocess.run([*_NAMESPACE, "true"], check=False).returncode:
        pytest.skip("this needs network namespaces: unshare --map-root-user --net")
    ran = subprocess.run(
        [*_NAMESPACE, *_PYTHON], check=False, capture_output=True, text=True, timeout=60, cwd=_ROOT
    )
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    return found | {"log": ran.stderr}


def test_another_replica_is_tried_and_none_is_ejected(seen: dict[str, Any]) -> None:
    """Local ports are used up for each destination by itself. No retry budget is needed."""
    assert [answer["status"] for answer in seen["one"]] == [200] * 12
    assert {answer["why"] for answer in seen["one"]} == {"", "connect_prevented"}
    assert (seen["failed"], seen["ejected"]) == ([0, 0], [0, 0])


def test_the_error_names_the_cause_and_is_over_with_it(seen: dict[str, Any]) -> None:
    said = json.loads(seen["both"]["body"])
    assert (seen["both"]["status"], said["code"]) == (503, "connect_prevented")
    assert "the proxy can open no connection to a replica: no local port is left" in said["detail"]
    assert "Cannot assign requested address" in said["detail"]
    assert [(answer["status"], answer["why"]) for answer in seen["after"]] == [(200, "")] * 4


def test_it_is_logged_once_each_time(seen: dict[str, Any]) -> None:
    assert seen["log"].count("this host can open no connection to") == 2, seen["log"]
