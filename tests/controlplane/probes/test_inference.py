"""Inference probes, warm-up and flap damping, from a round to a row; and the standalone proxy's."""

import asyncio
from collections.abc import Iterator

import pytest
import redis
from django.db.models import Model

from controlplane.models import Event, Fleet, Replica, ReplicaHealth
from controlplane.probes import last_results
from routing.contract.addresses import parse_base_url
from routing.contract.probe import Probe
from routing.contract.probe_presets import checks_of
from routing.contract.table import Tls
from routing.master.standalone import probe_client
from routing.tls.context_cache import TlsContextCache
from tests.conftest import RedisServer
from tests.controlplane.probes import servers
from tests.controlplane.probes.servers import HttpServer
from tests.controlplane.probes.test_tasks import one_round

pytestmark = pytest.mark.django_db

PROBE = {"preset": "llama.cpp", "inference": "chat", "load_reports": False, "rise": 1, "fall": 1}


class Answers:
    """A server whose health page is always fine."""

    def __init__(self) -> None:
        self.to_inference = b'{"choices":[{"message":{"content":"p"}}]}'

    async def __call__(self, server: HttpServer, head: bytes, writer: asyncio.StreamWriter) -> None:
        body = self.to_inference if head.startswith(b"POST /v1/chat/completions ") else b'{"status":"ok"}'
        if body == b"":
            await servers.hang(server, head, writer)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))


@pytest.fixture
def answers() -> Answers:
    return Answers()


@pytest.fixture
def server(answers: Answers) -> Iterator[HttpServer]:
    with HttpServer(answers) as running:
        yield running


@pytest.fixture
def replica(redis_server: RedisServer, server: HttpServer) -> Replica:
    fleet = Fleet.objects.create(name="tiny", protocol="openai", probe=PROBE)
    row = Replica.objects.create(fleet=fleet, name="a", url=server.url)
    ReplicaHealth.objects.create(replica=row)
    return row


def health(replica: Replica) -> ReplicaHealth:
    return ReplicaHealth.objects.get(replica=replica)


def test_a_fine_health_page_is_not_enough(
    redis_client: "redis.Redis", replica: Replica, server: HttpServer, answers: Answers
) -> None:
    answers.to_inference = b'{"detail":"worker process died"}'
    one_round(redis_client)
    assert health(replica).state == "checking"
    said = last_results.read_of(redis_client, [str(replica.uid)])[str(replica.uid)].answer
    assert said == '200 OK, but an inference request failed: 200 OK, but the answer has no "choices"'
    answers.to_inference = Answers().to_inference
    one_round(redis_client)
    assert (health(replica).state, health(replica).reason) == (
        "ready",
        "200 OK, and an inference request was answered",
    )
    assert [head.split()[1] for head in server.requests] == [b"/health", b"/v1/chat/completions"] * 2


def test_traffic_waits_for_the_warm_up(
    redis_client: "redis.Redis", replica: Replica, server: HttpServer
) -> None:
    change(Fleet.objects.get(), probe=PROBE | {"warm_up": 3})
    states = []
    for _ in range(3):
        one_round(redis_client)
        states.append(health(replica).state)
    assert states == ["checking", "checking", "ready"]
    assert Event.objects.count() == 1
    assert len([head for head in server.requests if head.startswith(b"POST")]) == 3


def test_one_that_comes_and_goes_is_held_back_unless_it_is_needed(
    redis_client: "redis.Redis", replica: Replica, answers: Answers
) -> None:
    for name in "bc":
        row = Replica.objects.create(fleet=replica.fleet, name=name, url="http://127.0.0.1:9")
        ReplicaHealth.objects.create(replica=row, state="ready", has_passed=True)

    def passes_until_ready() -> int:
        for number in range(1, 9):
            one_round(redis_client)
            ReplicaHealth.objects.exclude(replica=replica).update(state="ready")
            if health(replica).state == "ready":
                return number
        raise AssertionError("it stayed away")

    def is_lost() -> None:
        answers.to_inference = b"{}"
        change(Fleet.objects.get(), probe=PROBE | {"inference_period_s": 1.0})
        one_round(redis_client)
        ReplicaHealth.objects.exclude(replica=replica).update(state="ready")
        assert health(replica).state == "unready"
        answers.to_inference = Answers().to_inference

    needed = [passes_until_ready()]
    for _ in range(4):
        is_lost()
        needed.append(passes_until_ready())
    assert needed == [1, 1, 1, 2, 4]
    assert 3.9 < health(replica).flap_penalty <= 4.0
    is_lost()
    Replica.objects.exclude(pk=replica.pk).delete()
    assert passes_until_ready() == 1


def change(row: Model, **values: object) -> None:
    type(row)._default_manager.filter(pk=row.pk).update(**values)


def test_the_standalone_proxys_probe_does_the_same(server: HttpServer, answers: Answers) -> None:
    probe = Probe(preset="llama.cpp", inference="chat", inference_timeout_s=0.2)
    checks = checks_of(probe, "openai", server.url, "m")
    place = probe_client.ProbeTarget(parse_base_url(server.url), Tls(), TlsContextCache())
    assert asyncio.run(probe_client.probe(checks, place, True, True)).passed
    answers.to_inference = b""
    assert asyncio.run(probe_client.probe(checks, place, True, False)).passed
    found = asyncio.run(probe_client.probe(checks, place, True, True))
    assert found.words == "200 OK, but an inference request failed: no response in 0.2 s"
    assert (found.hint, found.inconclusive) == ("unready", True)
