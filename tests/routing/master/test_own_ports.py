"""A whole proxy never connects to itself, to its admin listener or to its Redis, whatever its table says."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.ports import free_port
from tests.proxy_process import ROOT, Proxy, Publisher, Replica, fleet_file, snapshot, until

LIMIT_S = 30


class Elsewhere:
    """A replica of a table, at any URL."""

    def __init__(self, name: str, url: str) -> None:
        self.name = name
        self.url = url


def refused(*arguments: str, **environment: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "routing", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        env={**os.environ, **environment},
        check=False,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]"])
def test_an_anonymous_client_does_not_reach_the_admin_listener(
    proxy: Callable[..., Proxy], publisher: Publisher, redis_url: str, replicas: list[Replica], host: str
) -> None:
    """A table may name it: the control plane knows no ports of proxies on other hosts."""
    running = proxy("--redis", redis_url, "--workers", "1")
    admin = Elsewhere("admin", f"http://{host}:{running.admin_port}")
    publisher.fleet(snapshot(1, [admin]))  # type: ignore[list-item]
    publisher.manifest(1)
    running.ready()
    status, body = running.get("/status")
    assert status == 503
    said = json.loads(body)
    assert said["code"] == "address_denied"
    assert f":{running.admin_port} is the proxy's admin listener: no replica can be there" in said["detail"]
    client = running.client()
    client.request("POST", "/restart")
    assert client.getresponse().status == 503
    client.close()
    itself = Elsewhere("itself", f"http://127.0.0.1:{running.port}")
    publisher.fleet(snapshot(2, [itself, replicas[0]]))  # type: ignore[list-item]
    publisher.manifest(2)
    until(lambda: publisher.applied("1:2", 1), "the table is applied")
    assert {running.get() for _ in range(4)} == {(200, "a")}
    until(lambda: not running.replicas("echo")["itself"]["eligible"], "it is ejected")
    [reason] = running.replicas("echo")["itself"]["reasons"]
    assert f"127.0.0.1:{running.port} is the proxy itself: no replica can be there" in reason


def test_a_fleet_file_that_names_one_is_refused_with_the_line(tmp_path: Path) -> None:
    admin, listen = free_port(), free_port()
    file = tmp_path / "fleets.yaml"
    lines = ("version: 1", "fleets:", "  - name: echo", "    protocol: generic", "    replicas:")
    replica = f"      - {{name: a, url: 'http://localhost:{admin}'}}"
    file.write_text("\n".join([*lines, replica]))
    places = ("--listen", f"127.0.0.1:{listen}", "--admin", f"127.0.0.1:{admin}")
    status, said = refused("--fleets", str(file), *places)
    assert status == 2
    assert "line 6, column 24: fleets[0].replicas[0].url: " in said
    assert said.strip().endswith(f"localhost:{admin} is the proxy's admin listener: no replica can be there")


def test_a_wrong_list_in_the_environment_stops_the_start() -> None:
    status, said = refused("--redis", "redis://x", SWITCHYARD_DENIED_ADDRESSES="10.0.0.1/8")
    assert (status, said) == (
        2,
        'SWITCHYARD_DENIED_ADDRESSES: "10.0.0.1/8" is not a network: write 10.0.0.0/8, or one address\n',
    )


def test_the_lists_of_the_environment_hold_in_the_workers_and_for_the_built_in_prober(
    tmp_path: Path, replicas: list[Replica], proxy: Callable[..., Proxy]
) -> None:
    """The replica's name leads to a denied address, so that the file itself is accepted."""
    a = replicas[0]
    a.url = a.url.replace("127.0.0.1", "localhost")
    probe = {"preset": "http", "path": "/health", "period_s": 0.5}
    file = fleet_file(tmp_path / "fleets.yaml", [a], probe=probe)
    denied = {"SWITCHYARD_DENIED_ADDRESSES": "127.0.0.1/32,::1"}
    arguments = ("--fleets", str(file), "--workers", "1")
    routing = proxy(*arguments, environment=denied).ready()
    assert json.loads(routing.get()[1])["code"] == "address_denied"
    probing = proxy(*arguments, "--probe", environment=denied).ready()
    words = "replica a of fleet echo is checking: localhost resolves to a forbidden address: "
    until(lambda: words in probing.log, "its probe fails")
    assert (a.served, a.probed) == (0, 0)
