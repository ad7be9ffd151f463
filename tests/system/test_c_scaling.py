"""KEDA's external scaler and a generated client, from a fleet of none to its first replica."""

import importlib
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_tools import protoc

from tests.ports import free_port
from tests.proxy_process import ROOT, until
from tests.system.stack import Answer, Stack, exchange

pytestmark = [pytest.mark.system, pytest.mark.timeout(120)]

KEDA = ROOT / "controlplane" / "keda"
EMPTY = "asleep"
CHAT = {"model": EMPTY, "max_tokens": 2, "messages": [{"role": "user", "content": "hello"}]}


@pytest.fixture
def client(tmp_path: Path) -> tuple[Any, Any]:
    """Messages and stub, as anybody generates them."""
    proto = tmp_path / "keda_client.proto"
    proto.write_text((KEDA / "external_scaler.proto").read_text())
    made = protoc.main(
        ["protoc", f"-I{tmp_path}", f"--python_out={tmp_path}", f"--grpc_python_out={tmp_path}", str(proto)]
    )
    assert made == 0
    sys.path.insert(0, str(tmp_path))
    try:
        return importlib.import_module("keda_client_pb2"), importlib.import_module("keda_client_pb2_grpc")
    finally:
        sys.path.remove(str(tmp_path))


@pytest.fixture
def channel(stack: Stack) -> Iterator[grpc.Channel]:
    address = f"127.0.0.1:{free_port()}"
    scaler = subprocess.Popen(
        [sys.executable, "manage.py", "keda_scaler", "--listen", address], cwd=ROOT, env=stack.environment
    )
    try:
        with grpc.insecure_channel(address) as channel:
            grpc.channel_ready_future(channel).result(40)
            yield channel
    finally:
        scaler.terminate()
        assert scaler.wait(20) == 0


@pytest.fixture
def empty_fleet(stack: Stack) -> Iterator[str]:
    policy = {"queue": {"cold": "hold", "cold_timeout_s": 60}, "scaling": {"scale_down_after_s": 0}}
    stack.api("POST", "/fleets", {"name": EMPTY, "protocol": "openai", "policy": policy})
    yield EMPTY
    where = f"/api/v1/fleets/{EMPTY}?confirm={EMPTY}"
    exchange(stack.port, "DELETE", where, headers=stack.authorization)


def test_a_fleet_of_none_is_woken_by_its_first_request(
    stack: Stack, channel: grpc.Channel, client: tuple[Any, Any], empty_fleet: str
) -> None:
    messages, stubs = client
    scaler = stubs.ExternalScalerStub(channel)
    ref = messages.ScaledObjectRef(name="x", namespace="y", scalerMetadata={"fleet": empty_fleet})
    request = messages.GetMetricsRequest(scaledObjectRef=ref, metricName="desired-replicas")
    (spec,) = scaler.GetMetricSpec(ref).metricSpecs
    assert (spec.metricName, spec.targetSize, spec.targetSizeFloat) == ("desired-replicas", 1, 1.0)
    until(lambda: stack.api("GET", f"/fleets/{EMPTY}/scaling")["desired"] == 0, "the fleet needs none")
    assert scaler.IsActive(ref).result is False
    assert scaler.GetMetrics(request).metricValues[0].metricValue == 0

    pushed = scaler.StreamIsActive(ref)
    assert next(pushed).result is False
    answers: list[Answer] = []
    waiting = threading.Thread(target=lambda: answers.append(stack.ask("/v1/chat/completions", CHAT)))
    waiting.start()
    assert next(pushed).result is True
    assert scaler.GetMetrics(request).metricValues[0].metricValueFloat == 1.0
    assert not answers

    url = next(
        one["url"]
        for one in stack.api("GET", "/fleets/tiny-llm/replicas")["results"]
        if one["name"] == "quick"
    )
    stack.api("PATCH", f"/fleets/{EMPTY}", {"served_model": "tiny-llm"})
    stack.api("POST", f"/fleets/{EMPTY}/replicas", {"name": "first", "url": url})
    waiting.join(60)
    assert answers, "the request that was held is answered"
    assert answers[0].status == 200, answers[0]
    assert answers[0].replica == "first"
    pushed.cancel()


def test_what_is_wrong_is_said(channel: grpc.Channel, client: tuple[Any, Any]) -> None:
    messages, stubs = client
    scaler = stubs.ExternalScalerStub(channel)
    for metadata, code, words in [
        ({}, grpc.StatusCode.INVALID_ARGUMENT, "add fleet: NAME"),
        ({"fleet": "nope"}, grpc.StatusCode.NOT_FOUND, 'there is no fleet "nope"'),
    ]:
        with pytest.raises(grpc.RpcError) as refused:
            scaler.IsActive(messages.ScaledObjectRef(scalerMetadata=metadata))
        assert refused.value.code() == code
        assert words in refused.value.details()


def test_the_messages_are_generated_from_the_file_beside_them(tmp_path: Path) -> None:
    made = protoc.main(["protoc", f"-I{KEDA}", f"--python_out={tmp_path}", "external_scaler.proto"])
    assert made == 0
    assert (tmp_path / "external_scaler_pb2.py").read_text() == (KEDA / "external_scaler_pb2.py").read_text()
