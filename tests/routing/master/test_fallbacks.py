"""Fallbacks of a whole proxy: from a file and over Redis, counted on its pages over all workers."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from routing.contract.policy import Fallback
from tests.proxy_process import Proxy, Publisher, Replica, snapshot, until


def fleet(name: str, *replicas: Replica, **policy: Any) -> dict[str, Any]:
    return {
        "name": name,
        "protocol": "generic",
        "policy": {"slow_start_s": 0, **policy},
        "replicas": [{"name": one.name, "url": one.url} for one in replicas],
    }


def write(file: Path, *fleets: dict[str, Any]) -> None:
    temporary = file.with_suffix(".new")
    temporary.write_text(json.dumps({"version": 1, "fleets": fleets}))
    temporary.replace(file)


def test_from_a_file(tmp_path: Path, replicas: list[Replica], proxy: Callable[..., Proxy]) -> None:
    spare, file = replicas[0], tmp_path / "fleets.yaml"
    write(file, fleet("large", fallback=[{"fleet": "small"}]), fleet("small", spare))
    running = proxy("--fleets", str(file), "--workers", "2").ready()
    for _ in range(6):
        assert running.get("/fleets/large/x") == (200, spare.name)

    def counted() -> Any:
        return running.status()["fleets"]["large"]["fallbacks"]

    listed = ["no_eligible_replica", "no_place", "replicas_failed", "first_token"]
    until(lambda: counted()[0]["requests"], "they are reported")
    until(lambda: counted()[0]["requests"]["no_eligible_replica"] == 6, "all of them are")
    assert counted() == [{"fleet": "small", "causes": listed, "requests": {"no_eligible_replica": 6}}]
    page = running.admin("/metrics")[1]
    labels = 'fleet="large",to="small",cause="no_eligible_replica"'
    assert f"switchyard_fallbacks_total{{{labels}}} 6\n" in page
    assert 'switchyard_requests_total{fleet="large"} 6\n' in page
    assert 'switchyard_requests_total{fleet="small"} 6\n' in page
    assert 'switchyard_answered_total{fleet="large"} 0\n' in page
    assert running.status()["fleets"]["small"]["fallbacks"] == []

    write(file, fleet("large"), fleet("small", spare))
    until(lambda: running.get("/fleets/large/x")[0] == 503, "the new file is in force")
    assert counted()[0]["causes"] == [], "it says where they went before"


def test_over_redis(
    proxy: Callable[..., Proxy], publisher: Publisher, replicas: list[Replica], redis_url: str
) -> None:
    large = snapshot(1, [], name="large")
    publisher.fleet(replace(large, policy=replace(large.policy, fallback=[Fallback(fleet="small")])))
    publisher.fleet(snapshot(1, replicas[:1], name="small"))
    publisher.manifest(1, fleets={"large": 1, "small": 1}, default=None)
    running = proxy("--redis", redis_url, "--workers", "1").ready()
    assert running.get("/fleets/large/x") == (200, replicas[0].name)
