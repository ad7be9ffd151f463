"""What requests lease, from the proxy that carries them to the answers of the API."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controlplane.models import Replica as Row
from controlplane.services import accelerators, fleets
from controlplane.services.health import record_transition
from controlplane.telemetry.conductor import Conductor
from tests.controlplane.conftest import Api
from tests.proxy_process import Proxy, Replica, until

DEVICE = "/accelerators/node1/gpu0"


@pytest.fixture
def server() -> Iterator[Replica]:
    running = Replica("a")
    yield running
    running.stop()


@pytest.fixture
def proxy(server: Replica, redis_url: str, tmp_path: Path) -> Iterator[Proxy]:
    """Of a fleet whose one replica has room for one request."""
    accelerators.create({"name": "node1/gpu0", "memory_bytes": 100, "headroom_percent": 10.0}, "w")
    on = {"accelerators": ["node1/gpu0"], "memory_bytes": 30, "request_bytes": 40}
    replica = {"name": "a", "url": server.url, **on}
    fleets.create({"name": "echo", "protocol": "generic", "default": True, "replicas": [replica]}, "w")
    record_transition(Row.objects.get().pk, "checking", "ready", "200 OK", has_passed=True)
    running = Proxy(tmp_path, "--redis", redis_url, "--workers", "1")
    yield running
    running.stop()


def live_of(api: Api) -> dict[str, Any]:
    (device,) = api.get("/live").json()["frame"]["accelerators"]
    found: dict[str, Any] = device
    return found


def test_what_a_request_in_flight_leases_is_seen_in_the_api(
    api: Api, server: Replica, proxy: Proxy, redis_client: Any
) -> None:
    conductor = Conductor(redis_client, "one")

    def seen() -> tuple[int | None, str]:
        conductor.tick()
        why = api.get("/fleets/echo/replicas/a").json()["why"]
        return api.get(DEVICE).json()["leased_bytes"], why

    proxy.ready()
    asking = threading.Thread(target=proxy.get, args=("/stream",), daemon=True)
    asking.start()
    full = "waits for memory on node1/gpu0: 20 bytes free of 90 bytes, a request takes 40 bytes"
    until(lambda: seen()[0] == 40 and full in seen()[1], "a request leases memory, and no other one fits")
    device = live_of(api)
    assert (device["held_bytes"], device["leased_bytes"], device["usable_bytes"]) == (30, 40, 90)
    assert api.get("/fleets/echo/replicas/a").json()["eligible"] is True
    late = threading.Thread(target=proxy.get, daemon=True)
    late.start()
    until(lambda: seen() and live_of(api)["lease_waits"] == 1, "the next one waits")
    server.release.set()
    asking.join()
    late.join()
    short = "memory was short on node1/gpu0 for 1 request in the last 10 s"
    until(lambda: seen()[0] == 0 and short in seen()[1], "it is given back, and that it was short is said")
