"""``expose`` in a fleet file: a real proxy refuses, counts and warns; a change applies at once."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.proxy_process import Proxy, Replica, fleet_file, until
from tests.routing.proxy.exchange.test_exposed_paths import LEAVING, MANAGEMENT


@pytest.fixture
def replica() -> Iterator[Replica]:
    replica = Replica("a")
    yield replica
    replica.stop()


def status_of(proxy: Proxy, line: str) -> int:
    method, path = line.split(" ")
    connection = proxy.client()
    try:
        # As written: a client's library would remove dot segments.
        connection.putrequest(method, path, skip_accept_encoding=True)
        connection.putheader("Content-Length", "2" if method == "POST" else "0")
        connection.endheaders(b"{}" if method == "POST" else None)
        return connection.getresponse().status
    finally:
        connection.close()


def test_a_real_proxy(tmp_path: Path, replica: Replica) -> None:
    file = fleet_file(tmp_path / "fleets.yaml", [replica], protocol="openai", expose="inference")
    proxy = Proxy(tmp_path, "--fleets", str(file), "--workers", "2")
    try:
        proxy.ready()
        assert [status_of(proxy, line) for line in MANAGEMENT] == [403] * 14
        assert {status_of(proxy, f"GET /fleets/echo{path}") for path in LEAVING} == {400}
        assert replica.served == 0
        assert status_of(proxy, "POST /fleets/echo/v1/chat/completions") == 200
        refused = 'switchyard_not_exposed_total{fleet="echo"} 14'
        until(lambda: refused in proxy.admin("/metrics")[1], "the refusals are counted")
        assert "no expose in fleet" not in proxy.log

        fleet_file(file, [replica], protocol="openai", expose=["/shutdown"])
        until(lambda: status_of(proxy, "POST /shutdown") == 200, "the path is exposed")
        assert status_of(proxy, "POST /sleep") == 403

        fleet_file(file, [replica], protocol="openai")
        until(lambda: status_of(proxy, "POST /sleep") == 200, "a fleet that says nothing exposes all")
        until(lambda: "no expose in fleet echo" in proxy.log, "the log warns")
        would = 'switchyard_would_refuse_total{fleet="echo"} 1'
        until(lambda: would in proxy.admin("/metrics")[1], "what would be refused is counted")
        assert "would refuse a request with 403 path_not_exposed" in proxy.log
    finally:
        proxy.stop()


def test_an_error_says_what_may_stand_there(tmp_path: Path, replica: Replica) -> None:
    file = fleet_file(tmp_path / "fleets.yaml", [replica], expose=["v1"])
    assert json.loads(file.read_text())["fleets"][0]["expose"] == ["v1"]
    proxy = Proxy(tmp_path, "--fleets", str(file))
    assert proxy.exit_status() == 2
    assert 'fleets[0].expose[0]: "v1" does not begin with a slash: write /v1' in proxy.log
