"""From an exporter's row to Redis, a frame and the API, with real servers."""

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from controlplane.exporters import store, tasks
from controlplane.models import Accelerator, Event, Exporter
from controlplane.telemetry import frame_builder
from controlplane.telemetry.db_snapshot import DbReader
from controlplane.telemetry.measured_devices import measured_devices
from controlplane.telemetry.merged_numbers import Merged
from tests.conftest import RedisServer
from tests.controlplane.conftest import Api
from tests.controlplane.exporters.test_pages import DCGM, NODE
from tests.controlplane.probes.servers import HttpServer, says
from tests.ports import free_port

pytestmark = pytest.mark.django_db(transaction=True)


async def exports(server: HttpServer, head: bytes, writer: asyncio.StreamWriter) -> None:
    body = (DCGM if head.startswith(b"GET /metrics ") else NODE).encode()
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))


@pytest.fixture
def server(redis_server: RedisServer) -> Iterator[HttpServer]:
    with HttpServer(exports) as running:
        yield running


def test_what_exporters_say_is_in_frames_and_in_the_api(
    api: Api, server: HttpServer, redis_client: "redis.Redis"
) -> None:
    Accelerator.objects.create(name="node1/gpu0", memory_bytes=80 * 2**30)
    made = api.post("/exporters", {"name": "gpus", "host": "node1", "url": server.url})
    assert made.status_code == 201
    assert (made.json()["age_s"], made.json()["problem"], made.json()["devices"]) == (None, None, [])
    api.post("/exporters", {"name": "node", "host": "node1", "url": f"{server.url}/node"})
    api.post("/exporters", {"name": "gone", "host": "node2", "url": f"http://127.0.0.1:{free_port()}"})
    tasks.read_exporters()

    listed = {one["name"]: one for one in api.get("/exporters").json()["results"]}
    assert listed["gpus"]["devices"] == ["node1/gpu0", "node1/gpu1"]
    assert listed["gone"]["problem"] == "GET /metrics: connection refused"
    now = time.time()
    found = measured_devices(store.read(redis_client), now)
    overview = frame_builder.build(
        DbReader().read(), Merged(), {}, {}, sequence=1, at=now, devices_measured=found
    ).overview
    (device,) = overview.accelerators
    assert device.measured is not None
    assert device.measured.trouble.startswith("XID 79")
    assert device.measured.memory_warning.startswith("uses 60 GiB, of which 0 bytes are declared")
    assert {one.exporter: (one.name, one.problem, one.devices) for one in overview.hosts} == {
        "gpus": ("node1", "", 2),
        "node": ("node1", "", 0),
        "gone": ("node2", "GET /metrics: connection refused", 0),
    }
    assert found.defects.keys() == {"node1/gpu0"}
    late = measured_devices(store.read(redis_client), now + 100)
    assert not late.devices
    assert "does a Celery worker run?" in late.hosts[0].problem

    assert api.delete("/exporters/gone").status_code == 204
    tasks.read_exporters()
    assert redis_client.hlen(store.KEY) == 2
    assert Event.objects.filter(text__contains="exporter gone").count() == 2


@pytest.mark.parametrize(
    ("body", "pointer", "words"),
    [
        ({"name": "x", "host": "node1"}, "", "url"),
        ({"name": "x", "host": "Node 1", "url": "http://n:9400"}, "/host", "lower-case"),
        ({"name": "x", "host": "n", "url": "ftp://n"}, "/url", "http"),
    ],
)
def test_what_cannot_work_is_refused_at_the_field(
    api: Api, redis_server: RedisServer, body: dict[str, Any], pointer: str, words: str
) -> None:
    refused = api.post("/exporters", body)
    assert refused.status_code in (400, 422)
    (problem,) = refused.json()["errors"]
    assert problem["pointer"] == pointer
    assert words in problem["detail"]


def test_an_address_that_is_denied_is_not_asked(
    api: Api, redis_server: RedisServer, redis_client: "redis.Redis"
) -> None:
    Exporter.objects.create(name="cloud", host="n", url="http://169.254.169.254")
    tasks.read_exporters()
    (reading,) = store.read(redis_client)
    assert "169.254.169.254" in reading.problem


def test_a_page_that_is_none_says_why(server: HttpServer, redis_client: "redis.Redis") -> None:
    server.answer = says(404)
    Exporter.objects.create(name="gpus", host="n", url=server.url)
    tasks.read_exporters()
    assert store.read(redis_client)[0].problem.startswith("GET /metrics: 404")
