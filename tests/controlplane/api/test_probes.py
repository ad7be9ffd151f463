"""``…/replicas/NAME/probes``: the last results, and a probe at once."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from controlplane.models import Fleet, Replica, ReplicaHealth
from controlplane.probes import keys, schedule, targets, tasks
from tests.conftest import RedisServer
from tests.controlplane.conftest import Api
from tests.controlplane.probes import servers
from tests.controlplane.probes.servers import HttpServer
from tests.controlplane.probes.test_tasks import one_round

PROBE = {"preset": "llama.cpp", "timeout_s": 2.0, "load_reports": False}
PATH = "/fleets/tiny/replicas/a/probes"


@pytest.fixture
def server() -> Iterator[HttpServer]:
    with HttpServer(servers.ready) as running:
        yield running


@pytest.fixture
def replica(db: None, redis_server: RedisServer, server: HttpServer) -> Replica:
    fleet = Fleet.objects.create(name="tiny", protocol="openai", probe=PROBE)
    row = Replica.objects.create(fleet=fleet, name="a", url=server.url)
    ReplicaHealth.objects.create(replica=row)
    return row


def results(api: Api) -> list[dict[str, Any]]:
    answer = api.get(PATH)
    assert answer.status_code == 200
    found: list[dict[str, Any]] = answer.json()["results"]
    return found


def test_the_last_fifty_results_the_newest_first(
    api: Api, replica: Replica, server: HttpServer, redis_client: "redis.Redis"
) -> None:
    assert results(api) == []
    one_round(redis_client)
    server.answer = servers.loading
    one_round(redis_client)
    newest, oldest = results(api)
    assert (newest["passed"], oldest["passed"], oldest["answer"]) == (False, True, "200 OK")
    assert newest["answer"].startswith("503")
    assert oldest["age_s"] >= newest["age_s"] >= 0
    assert oldest["latency_ms"] > 0
    server.answer = servers.ready
    for _ in range(keys.MOST_RESULTS):
        one_round(redis_client)
    found = results(api)
    assert len(found) == keys.MOST_RESULTS
    assert {one["answer"] for one in found} == {"200 OK"}


def test_they_go_with_their_replica(api: Api, replica: Replica, redis_client: "redis.Redis") -> None:
    one_round(redis_client)
    assert redis_client.exists(keys.RESULTS + str(replica.uid))
    replica.delete()
    schedule.reconcile(redis_client, targets.timings(), tasks.rng)
    assert not redis_client.exists(keys.RESULTS + str(replica.uid))


@pytest.mark.django_db(transaction=True)
def test_a_probe_at_once_waits_for_its_result(
    api: Api, replica: Replica, redis_client: "redis.Redis"
) -> None:
    one_round(redis_client)
    redis_client.zadd(keys.DUE, {str(replica.uid): redis_client.time()[0] * 1000 + 3_600_000})

    def worker() -> None:
        ends = time.monotonic() + 5
        while time.monotonic() < ends:
            claims = schedule.claim(redis_client)
            if claims:
                tasks.probe_batch([tuple(claim) for claim in claims])
                return
            time.sleep(0.02)

    thread = threading.Thread(target=worker)
    thread.start()
    answer = api.post(PATH)
    thread.join()
    assert (answer.status_code, answer.json()["probed"]) == (200, True)
    assert len(answer.json()["results"]) == 2


def test_where_no_worker_takes_it_that_is_said(
    api: Api, replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controlplane.api.probes.WAIT_S", 0.1)
    answer = api.post(PATH)
    assert (answer.status_code, answer.json()) == (200, {"probed": False, "results": []})


def test_unknown_names(api: Api, replica: Replica) -> None:
    assert api.get("/fleets/tiny/replicas/b/probes").status_code == 404
    assert api.post("/fleets/none/replicas/a/probes").status_code == 404
