"""``adapters`` of replicas in a fleet file: a real proxy sends requests where they are served, and warns."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.proxy_process import Proxy, Replica, fleet_file, until


@pytest.fixture
def replicas() -> Iterator[list[Replica]]:
    replicas = [Replica("a"), Replica("b")]
    yield replicas
    for replica in replicas:
        replica.stop()


def ask(proxy: Proxy, model: str) -> tuple[int, str]:
    connection = proxy.client()
    try:
        body = json.dumps({"model": model, "prompt": "hello"})
        connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def serving(file: Path, replicas: list[Replica], *served: list[str] | None) -> Path:
    entries = [
        {"name": one.name, "url": one.url, "adapters": adapters}
        for one, adapters in zip(replicas, served, strict=True)
    ]
    return fleet_file(
        file, replicas, protocol="openai", expose="inference", adapters=["x", "y"], replicas=entries
    )


def test_a_real_proxy(tmp_path: Path, replicas: list[Replica]) -> None:
    file = serving(tmp_path / "fleets.yaml", replicas, [], ["x"])
    proxy = Proxy(tmp_path, "--fleets", str(file), "--workers", "2")
    try:
        proxy.ready()
        assert "no replica of fleet echo serves the adapter y: requests for it" in proxy.log
        assert [ask(proxy, "x")[0] for _ in range(10)] == [200] * 10
        assert [one.served for one in replicas] == [0, 10]
        status, words = ask(proxy, "y")
        assert (status, "no replica of fleet echo serves adapter y" in words) == (503, True)

        serving(file, replicas, ["y"], ["x"])
        until(lambda: ask(proxy, "y")[0] == 200, "the first replica serves it now")
        assert replicas[0].served >= 1
        assert replicas[1].served == 10
    finally:
        proxy.stop()
