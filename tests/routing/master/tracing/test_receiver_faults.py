"""A receiver of traces that is gone, slow or full, or says nonsense: requests go on, the log says it once."""

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.certificates import Authority
from tests.otlp_receiver import Receiver
from tests.ports import free_port
from tests.proxy_process import Proxy, until
from tests.routing.master.tracing.model_server import ask

Start = Callable[..., Proxy]
FAILS = "traces are dropped: the receiver"
SHORT = {"OTEL_EXPORTER_OTLP_TIMEOUT": "300"}


def traces(proxy: Proxy) -> dict[str, object]:
    found: dict[str, object] = proxy.status()["traces"]
    return found


def metric(proxy: Proxy, name: str) -> float:
    lines = proxy.admin("/metrics")[1].splitlines()
    return float(next(line for line in lines if line.startswith(name + " ")).rpartition(" ")[2])


def test_a_receiver_that_is_gone_and_comes_back(receiver: Receiver, traced: Start) -> None:
    receiver.stop()
    proxy = traced(environment=SHORT)
    began = time.monotonic()
    for _ in range(20):
        assert ask(proxy)[0] == 200
    assert time.monotonic() - began < 5.0
    until(lambda: traces(proxy)["state"] == "failing", "it is known")
    assert ask(proxy)[0] == 200
    until(lambda: traces(proxy)["dropped"]["receiver"] >= 4, "more is dropped")  # type: ignore[index]
    assert proxy.log.count(FAILS) == 1
    assert "Connection refused" in str(traces(proxy)["problem"])
    assert metric(proxy, "switchyard_trace_receiver_up") == 0

    back = Receiver(receiver.port)
    try:
        until(lambda: ask(proxy)[0] == 200 and back.spans, "traces come again")
        until(lambda: traces(proxy)["state"] == "up", "it is known")
        assert metric(proxy, "switchyard_trace_receiver_up") == 1
        assert metric(proxy, "switchyard_spans_exported_total") >= 2
        assert proxy.log.count("takes traces again") == 1
        assert traces(proxy)["problem"] == ""
    finally:
        back.stop()


def test_a_receiver_that_says_no(receiver: Receiver, traced: Start) -> None:
    receiver.status, receiver.body = 400, b"<html>what</html>"
    proxy = traced()
    assert ask(proxy)[0] == 200
    until(lambda: traces(proxy)["state"] == "failing", "it is known")
    assert ask(proxy)[0] == 200
    until(lambda: traces(proxy)["dropped"]["receiver"] == 4, "all is dropped")  # type: ignore[index]
    assert len(receiver.posts) == 2
    assert "400" in str(traces(proxy)["problem"])
    assert proxy.log.count(FAILS) == 1
    receiver.status, receiver.body = 200, b"\xff\xfe no message \x00"
    assert ask(proxy)[0] == 200
    receiver.trace(2)
    until(lambda: traces(proxy)["state"] == "up", "what it says with 200 is not looked at")


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_receiver_that_is_full_for_a_moment(receiver: Receiver, traced: Start, status: int) -> None:
    receiver.first, receiver.headers = [status, status], {"Retry-After": "0"}
    proxy = traced()
    assert ask(proxy)[0] == 200
    receiver.trace(2)
    until(lambda: traces(proxy)["exported"] == 2, "it took them")
    assert len(receiver.posts) == 3
    assert traces(proxy)["dropped"] == {"worker": 0, "queue": 0, "receiver": 0, "end": 0}
    assert FAILS not in proxy.log


def test_a_receiver_that_does_not_answer_holds_up_no_request(receiver: Receiver, traced: Start) -> None:
    receiver.held.clear()
    proxy = traced(environment={"OTEL_EXPORTER_OTLP_TIMEOUT": "60000"})
    assert ask(proxy)[0] == 200
    until(lambda: receiver.posts, "a batch is posted")
    began = time.monotonic()
    for _ in range(30):
        assert ask(proxy)[0] == 200
    assert time.monotonic() - began < 5.0
    until(lambda: traces(proxy)["waiting"] == 62, "the others wait")
    receiver.held.set()
    receiver.trace(62)


def test_a_graceful_stop_exports_all(receiver: Receiver, traced: Start) -> None:
    proxy = traced("--min-drain-seconds", "0")
    for _ in range(25):
        assert ask(proxy)[0] == 200
    proxy.signal(signal.SIGTERM)
    assert proxy.exit_status() == 0
    assert len(receiver.spans) == 50


def test_a_stop_waits_for_a_dead_receiver_only_so_long(receiver: Receiver, traced: Start) -> None:
    receiver.held.clear()
    proxy = traced("--min-drain-seconds", "0", environment={"OTEL_EXPORTER_OTLP_TIMEOUT": "60000"})
    assert ask(proxy)[0] == 200
    until(lambda: receiver.posts, "a batch is posted")
    assert ask(proxy)[0] == 200
    began = time.monotonic()
    proxy.signal(signal.SIGTERM)
    assert proxy.exit_status() == 0
    assert time.monotonic() - began < 9.0
    assert "4 spans were not exported" in proxy.log


def test_an_address_where_nobody_is_stops_no_start(traced: Start) -> None:
    variables = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"http://127.0.0.1:{free_port()}/x", **SHORT}
    proxy = traced(environment=variables)
    assert ask(proxy)[0] == 200
    until(lambda: traces(proxy)["state"] == "failing", "it is known")


def test_workers_that_are_replaced_lose_nothing(receiver: Receiver, traced: Start) -> None:
    proxy = traced()
    for _ in range(10):
        assert ask(proxy)[0] == 200
    before = proxy.workers()
    proxy.signal(signal.SIGUSR1)
    until(lambda: proxy.workers() not in ([], before), "it is replaced")
    for _ in range(10):
        assert ask(proxy)[0] == 200
    receiver.trace(40)


def test_a_receiver_of_an_authority_of_its_own(tmp_path: Path, traced: Start) -> None:
    """It goes before what the environment says of all programs."""
    ours, usual = Authority(tmp_path), Authority(tmp_path, "usual")
    receiver = Receiver(tls=ours.server("IP:127.0.0.1"))
    environment = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
        "OTEL_EXPORTER_OTLP_CERTIFICATE": str(ours.certificate),
        "REQUESTS_CA_BUNDLE": str(usual.certificate),
        "CURL_CA_BUNDLE": str(usual.certificate),
    }
    try:
        proxy = traced(environment=environment)
        assert ask(proxy)[0] == 200
        until(lambda: receiver.spans, "they are taken")
        assert traces(proxy)["state"] == "up"
    finally:
        receiver.stop()
