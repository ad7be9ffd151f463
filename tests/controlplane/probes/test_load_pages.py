"""A replica's page of its load is read beside its probes, into Redis, and never costs it its health."""

import asyncio
import time
from collections.abc import Iterator
from random import Random

import pytest
import redis

from controlplane.models import Fleet, Replica, ReplicaHealth
from controlplane.observability.metrics import LOAD_PAGES
from controlplane.probes import last_results, prober, schedule, targets
from routing.contract.load_report import ReportedLoad
from routing.contract.metrics_pages import LOAD_PAGE_S
from routing.contract.probe import Probe
from routing.contract.probe_presets import checks_of
from tests.controlplane.probes import servers
from tests.controlplane.probes.servers import Answer, HttpServer, says
from tests.controlplane.probes.test_tasks import one_round, state

PAGE = (
    b'vllm:num_requests_running{model_name="m"} 12.0\nvllm:num_requests_waiting{model_name="m"} 3.0\n'
    b'vllm:kv_cache_usage_perc{model_name="m"} 0.81\n'
)
TELLS = ReportedLoad(running=12, waiting=3, kv_share=0.81)


def ready_and(page: Answer) -> Answer:
    """Passes its probes; what is asked of ``/metrics`` gets the other answer."""

    async def answer(server: HttpServer, head: bytes, writer: asyncio.StreamWriter) -> None:
        asked = head.split(b" ")[1]
        await (page if asked == b"/metrics" else servers.ready)(server, head, writer)

    return answer


@pytest.fixture
def server() -> Iterator[HttpServer]:
    with HttpServer(ready_and(says(200, PAGE))) as running:
        yield running


def found(server: HttpServer, credential: str = "", **settings: object) -> prober.ReplicaProbeResult:
    probe = Probe(**{"preset": "vllm", **settings})  # type: ignore[arg-type]
    checks = checks_of(probe, "openai", server.url, "m")
    [finding] = prober.probe([prober.ReplicaProbe("u", server.url, checks, True, credential=credential)])
    return finding


def test_the_page_is_read_beside_the_probe(server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPLICA_KEY", "s3cr3t-token")
    finding = found(server, "env:REPLICA_KEY")
    assert (finding.verdict.passed, finding.load) == (True, TELLS)
    assert {request.split(b" ")[1] for request in server.requests} == {b"/health", b"/metrics"}
    assert all(b"Authorization: Bearer s3cr3t-token\r\n" in request for request in server.requests)
    time.sleep(0.05)
    now = finding.load_now()
    assert now is not None
    assert now.age_s >= 0.05


@pytest.mark.parametrize(
    ("page", "problem"),
    [
        (says(404), "/metrics: 404 Not Found"),
        (
            says(501, b'{"error":{"message":"start it with --metrics"}}'),
            "/metrics: 501 start it with --metrics",
        ),
        (
            says(200, b"<html>"),
            "/metrics: the page has none of vllm:num_requests_running, vllm:num_requests_waiting, ",
        ),
        (servers.reset, "/metrics: connection closed without a response"),
        (servers.hang, f"/metrics: no response in {LOAD_PAGE_S:.1f} s"),
        (servers.endless, "/metrics: the page has none of vllm:num_requests_running"),
    ],
)
def test_a_page_that_tells_nothing_costs_nothing_but_a_second(
    server: HttpServer, page: Answer, problem: str
) -> None:
    server.answer = ready_and(page)
    began = time.monotonic()
    finding = found(server)
    assert time.monotonic() - began < LOAD_PAGE_S + 1
    assert finding.verdict.passed
    assert finding.load is not None
    assert finding.load.problem.startswith(problem)
    assert finding.load.in_flight is None


def test_it_is_not_asked_where_nobody_wants_it(server: HttpServer) -> None:
    assert found(server, load_reports=False).load is None
    assert [request.split(b" ")[1] for request in server.requests] == [b"/health"]


# --- with Redis and the database ---


@pytest.fixture
def replica(server: HttpServer, db: None) -> Replica:
    fleet = Fleet.objects.create(name="chat", protocol="openai", probe={"preset": "vllm", "period_s": 1.0})
    row = Replica.objects.create(fleet=fleet, name="a", url=server.url, weight=1.0)
    ReplicaHealth.objects.create(replica=row)
    return row


def outcomes() -> dict[str, float]:
    return {name: LOAD_PAGES.labels(name)._value.get() for name in ("figures", "nothing")}


def test_what_it_says_is_kept_with_its_age_as_long_as_it_is_asked(
    redis_client: "redis.Redis", replica: Replica, server: HttpServer
) -> None:
    uid, before = str(replica.uid), outcomes()
    one_round(redis_client)
    first = last_results.read_loads(redis_client)[uid]
    assert (first.running, first.waiting, first.kv_share, first.problem) == (12, 3, 0.81, "")
    assert 0 <= first.age_s < 5
    time.sleep(0.1)
    assert last_results.read_loads(redis_client)[uid].age_s > first.age_s + 0.05

    server.answer = ready_and(says(404))
    one_round(redis_client)
    assert last_results.read_loads(redis_client)[uid].problem == "/metrics: 404 Not Found"
    assert state(replica) == ("ready", "200 OK", True)
    assert {name: count - before[name] for name, count in outcomes().items()} == {"figures": 1, "nothing": 1}

    Fleet.objects.update(probe={"preset": "vllm", "load_reports": False})
    one_round(redis_client)
    assert last_results.read_loads(redis_client) == {}


def test_what_a_removed_replica_said_is_forgotten(redis_client: "redis.Redis", replica: Replica) -> None:
    one_round(redis_client)
    assert len(last_results.read_loads(redis_client)) == 1
    replica.delete()
    schedule.reconcile(redis_client, targets.timings(), Random(1))
    assert last_results.read_loads(redis_client) == {}


def test_the_claim_lasts_as_long_as_the_page_may(replica: Replica) -> None:
    Fleet.objects.update(probe={"preset": "vllm", "timeout_s": 0.2})
    assert targets.timings()[str(replica.uid)].longest_s == LOAD_PAGE_S
