"""The proxy's logs: one form for all its processes, and an access log that all workers share."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from routing.master.options import BadOptions, parse
from tests.proxy_process import Proxy, Replica, fleet_file, until


def test_json_lines_and_an_access_log(
    tmp_path: Path, replicas: list[Replica], proxy: Callable[..., Proxy]
) -> None:
    file = fleet_file(tmp_path / "fleets.yaml", replicas)
    access = tmp_path / "access.log"
    flags = ("--workers", "2", "--log-format", "json", "--access-log", str(access))
    running = proxy("--fleets", str(file), *flags).ready()
    for _ in range(5):
        assert running.get()[0] == 200
    until(lambda: access.read_text().count("\n") == 5, "five lines")
    lines = [json.loads(line) for line in access.read_text().splitlines()]
    assert {line["status"] for line in lines} == {200}
    assert {line["fleet"] for line in lines} == {"echo"}
    assert all(line["process"].startswith("proxy/worker/") for line in lines)
    assert len({line["request_id"] for line in lines}) == 5

    said = [json.loads(line) for line in running.log.splitlines()]
    assert {"time", "level", "logger", "message", "process"} <= set(said[0])
    assert "proxy/master" in {line["process"] for line in said}


def test_flags_that_cannot_be_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadOptions, match=r"--access-log .*: No such file or directory"):
        parse(["--fleets", "f", "--access-log", str(tmp_path / "no" / "where")])
    with pytest.raises(BadOptions, match="--log-format"):
        parse(["--fleets", "f", "--log-format", "xml"])
    monkeypatch.setenv("SWITCHYARD_LOG_FORMAT", "xml")
    with pytest.raises(BadOptions, match="SWITCHYARD_LOG_FORMAT='xml' is not one of json, text"):
        parse(["--fleets", "f"])
    monkeypatch.setenv("SWITCHYARD_LOG_FORMAT", "text")
    assert parse(["--fleets", "f"]).log_format == "text"
    assert parse(["--fleets", "f"]).access_log is None
