"""Flags of ``up`` reach the settings through the environment, and what the caller has set stays."""

import os
from pathlib import Path

import pytest

from controlplane.supervision import environment, programs
from controlplane.supervision.options import UpOptions
from routing.contract.address_rules import read_ports


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "SWITCHYARD_DATA_DIR",
        "SWITCHYARD_REDIS_URL",
        "SWITCHYARD_PROXY_URL",
        environment.OWN_REDIS,
        environment.OWN_PORTS,
    ):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def test_the_data_folder_and_the_embedded_redis_follow_the_flag(tmp_path: Path) -> None:
    environment.prepare(["--data-dir", str(tmp_path), "--proxy-port", "9999"])
    assert os.environ["SWITCHYARD_DATA_DIR"] == str(tmp_path)
    assert os.environ["SWITCHYARD_REDIS_URL"] == f"unix://{tmp_path}/redis/redis.sock?db=0"
    assert os.environ[environment.OWN_REDIS] == "1"
    assert os.environ["SWITCHYARD_PROXY_URL"] == "http://127.0.0.1:9999"


def test_a_named_redis_is_used_and_none_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWITCHYARD_REDIS_URL", "redis://10.0.0.9:6379/0")
    environment.prepare([])
    assert os.environ["SWITCHYARD_REDIS_URL"] == "redis://10.0.0.9:6379/0"
    # Proxies know which files they tell no replica of.
    assert os.environ["SWITCHYARD_DATA_DIR"] == str(environment.PROJECT / "var")
    assert environment.OWN_REDIS not in os.environ


def test_every_process_knows_the_ports_of_all_and_those_that_the_caller_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(environment.OWN_PORTS, "10.0.0.9:8081,9000")
    environment.prepare(["--host", "::1", "--port", "8001", "--admin-port", "8100"])
    listed = os.environ[environment.OWN_PORTS]
    assert listed == "[::1]:8001,127.0.0.1:8080,127.0.0.1:8100,127.0.0.1:8101-8104,10.0.0.9:8081,9000"
    # Of all ports that `up` uses only those of the example replicas are for replicas.
    used = {use.port for use in programs.ports(UpOptions(examples=False, port=8001, admin_port=8100))}
    assert used <= {place.port for place in read_ports(listed)}


def test_a_deep_folder_gets_a_short_socket_path_that_stays_the_same(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 120)
    path = environment.socket_path(deep)
    assert len(os.fsencode(path)) <= environment.LONGEST_SOCKET_PATH
    assert path == environment.socket_path(deep)
    assert path != environment.socket_path(tmp_path / ("e" * 120))


def test_flags_that_make_no_sense_are_left_to_the_command(tmp_path: Path) -> None:
    environment.prepare(["--port", "none", "--data-dir", str(tmp_path)])
    assert "SWITCHYARD_DATA_DIR" not in os.environ
