"""The listener of a process: metrics, liveness, readiness; and to whom it answers."""

import http.client
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from prometheus_client.parser import text_string_to_metric_families

from controlplane.config import environment
from controlplane.config.listen_address import ListenAddress
from controlplane.observability import metrics_listener
from controlplane.observability.metrics_listener import Listener
from controlplane.observability.process import LoopHeartbeat, ThisProcess, this_process
from controlplane.observability.process_health import Liveness
from tests.conftest import RedisServer
from tests.proxy_process import free_port

pytestmark = pytest.mark.usefixtures("stored")


@pytest.fixture
def listen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Listener]]:
    running = []
    monkeypatch.setattr(this_process, "role", "conductor")
    this_process.loop_heartbeat.record()  # the tests before may have taken longer than a loop may

    def start(token: str = "") -> Listener:
        found = Listener(ListenAddress("127.0.0.1", free_port()), token)
        threading.Thread(target=found.serve_forever, args=(0.02,), daemon=True).start()
        running.append(found)
        return found

    yield start
    this_process.ready.clear()
    for each in running:
        each.shutdown()
        each.server_close()


def ask(found: Listener, path: str, **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", found.server_port, timeout=10)
    try:
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_metrics_can_be_parsed(listen: Callable[..., Listener]) -> None:
    status, text = ask(listen(), "/metrics")
    assert status == 200
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert families["switchyard_build_info"].samples[0].labels["process"] == "conductor"
    assert {"process_cpu_seconds", "process_open_fds", "switchyard_conductor_ticks"} <= families.keys()


def test_ready_when_what_it_needs_is_there(
    listen: Callable[..., Listener], redis_server: RedisServer
) -> None:
    found = listen()
    status, body = ask(found, "/readyz")
    assert (status, json.loads(body)["conductor"]) == (503, "starting")
    this_process.ready.set()
    expected = {"status": "ready", "conductor": "ok", "redis": "ok", "database": "ok"}
    assert ask(found, "/readyz") == (200, json.dumps(expected) + "\n")
    redis_server.stop()
    status, body = ask(found, "/readyz")
    assert status == 503
    assert json.loads(body)["redis"].startswith("away: ")


def test_live_while_the_main_loop_runs() -> None:
    now = [0.0]
    process = ThisProcess()
    process.loop_heartbeat = LoopHeartbeat(lambda: now[0])
    redis = ["ok"]
    liveness = Liveness(process, lambda: redis[0], 60.0)
    now[0] = 59.0
    assert liveness.look().ok
    now[0] = 61.0
    assert liveness.look().checks == {"loop": "has not turned for 61 s"}
    redis[0] = "away: refused"  # then the loop waits for it, and a restart would not help
    assert liveness.look().ok
    redis[0] = "ok"  # it gets as long again to come back
    now[0] = 120.0
    assert liveness.look().ok
    now[0] = 122.0
    assert not liveness.look().ok


def test_a_token_is_asked_for_where_there_is_one(listen: Callable[..., Listener]) -> None:
    found = listen("a-long-random-token")
    assert ask(found, "/metrics")[0] == 401
    assert ask(found, "/metrics", Authorization="Bearer another")[0] == 401
    assert ask(found, "/metrics", Authorization="Bearer a-long-random-token")[0] == 200
    assert ask(found, "/livez")[0] == 200


def test_web_pages_are_refused(listen: Callable[..., Listener]) -> None:
    found = listen()
    assert ask(found, "/metrics", Origin="http://evil.example")[0] == 403
    assert ask(found, "/metrics", Host="evil.example")[0] == 403
    assert ask(found, "/")[0] == 404


def test_a_taken_port_is_a_sentence(listen: Callable[..., Listener], settings: Any) -> None:
    taken = listen()
    settings.METRICS_LISTEN = ListenAddress("127.0.0.1", taken.server_port)
    with pytest.raises(ImproperlyConfigured, match="cannot listen there: Address already in use"):
        metrics_listener.start()
    settings.METRICS_LISTEN = None
    assert metrics_listener.start() is None


@pytest.mark.parametrize(
    "text", ["9464", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:70000", "host:9464", "[::1"]
)
def test_addresses_that_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"HOST:PORT|is not an IP address"):
        ListenAddress.parse(text)


def test_addresses_that_are_taken() -> None:
    assert ListenAddress.parse("[::1]:9464").is_loopback
    assert str(ListenAddress.parse("[::1]:9464")) == "[::1]:9464"
    assert not ListenAddress.parse("0.0.0.0:9464").is_loopback
    with pytest.raises(ImproperlyConfigured, match="set SWITCHYARD_METRICS_TOKEN"):
        environment.refuse_open_metrics(ListenAddress.parse("0.0.0.0:9464"), "")
    environment.refuse_open_metrics(ListenAddress.parse("0.0.0.0:9464"), "a-long-random-token")
    with pytest.raises(ImproperlyConfigured, match="16 or more"):
        environment.refuse_open_metrics(None, "short")
