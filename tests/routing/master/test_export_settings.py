"""Export settings: OpenTelemetry's variables as the specification says, and what is refused at the start."""

from pathlib import Path

import pytest

from routing.contract.tracing import TracingSettings
from routing.master.export_settings import ExportSettings, from_environment
from routing.master.options import BadOptions, parse

BASE = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}


def read(**variables: str) -> ExportSettings:
    found = from_environment({**BASE, **variables}, 50.0)
    assert found is not None
    return found


def test_off_unless_an_endpoint_is_named() -> None:
    assert from_environment({}, 50.0) is None
    assert from_environment({"OTEL_EXPORTER_OTLP_ENDPOINT": " "}, 50.0) is None
    assert from_environment({**BASE, "OTEL_SDK_DISABLED": "true"}, 50.0) is None
    assert from_environment({**BASE, "OTEL_TRACES_EXPORTER": "none"}, 50.0) is None
    assert parse(["--fleets", "f"]).traces is None


def test_defaults() -> None:
    assert read() == ExportSettings(
        endpoint="http://collector:4318/v1/traces",
        headers={},
        timeout_s=10.0,
        compressed=True,
        certificate=None,
        client_certificate=None,
        client_key=None,
        service="switchyard-proxy",
        resource={},
        sampling=TracingSettings(ratio=1.0, follows_parent=True, traces_per_s=50.0),
    )


def test_what_is_said_of_traces_goes_before_what_is_said_of_all() -> None:
    found = read(
        OTEL_EXPORTER_OTLP_TRACES_ENDPOINT="https://[::1]:1/otlp",
        OTEL_EXPORTER_OTLP_HEADERS="a=1",
        OTEL_EXPORTER_OTLP_TRACES_HEADERS="Authorization=Basic%20eA%3D%3D, x-b=2",
        OTEL_EXPORTER_OTLP_TIMEOUT="500",
        OTEL_EXPORTER_OTLP_COMPRESSION="none",
        OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf",
    )
    assert found.endpoint == "https://[::1]:1/otlp"
    assert found.headers == {"Authorization": "Basic eA==", "x-b": "2"}
    assert found.timeout_s == 0.5
    assert not found.compressed


def test_a_base_url_may_have_a_path() -> None:
    assert read(OTEL_EXPORTER_OTLP_ENDPOINT="http://c/otlp/").endpoint == "http://c/otlp/v1/traces"


def test_the_service_and_its_attributes() -> None:
    attributes = "service.name=a,deployment.environment.name=on%2Coff"
    found = read(OTEL_RESOURCE_ATTRIBUTES=attributes)
    assert (found.service, found.resource) == ("a", {"deployment.environment.name": "on,off"})
    found = read(OTEL_RESOURCE_ATTRIBUTES=attributes, OTEL_SERVICE_NAME="b")
    assert (found.service, found.resource) == ("b", {"deployment.environment.name": "on,off"})


@pytest.mark.parametrize(
    ("sampler", "argument", "ratio", "follows_parent"),
    [
        ("parentbased_traceidratio", "0.25", 0.25, True),
        ("parentbased_traceidratio", "", 1.0, True),
        ("parentbased_always_off", "", 0.0, True),
        ("traceidratio", "0", 0.0, False),
        ("always_on", "0.5", 1.0, False),
        ("always_off", "", 0.0, False),
    ],
)
def test_samplers(sampler: str, argument: str, ratio: float, follows_parent: bool) -> None:
    sampling = read(OTEL_TRACES_SAMPLER=sampler, OTEL_TRACES_SAMPLER_ARG=argument).sampling
    assert (sampling.ratio, sampling.follows_parent) == (ratio, follows_parent)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318", "http or https URL of a receiver, such as"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://:4318", "http or https URL"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a:99999", "http or https URL"),
        (
            "OTEL_EXPORTER_OTLP_ENDPOINT",
            "http://u:p@a",
            "password: set OTEL_EXPORTER_OTLP_HEADERS",
        ),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://a/?x=1", "no query"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "http/protobuf"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "zstd", "gzip, none"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "10", "milliseconds from 100 to 60000"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "1.5", "milliseconds"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "secret", "key=value"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "a b=1", "header field"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "a=1%0d%0ab:2", "header field"),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/no/where", "no such file"),
        ("OTEL_EXPORTER_OTLP_CLIENT_KEY", __file__, "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE"),
        ("OTEL_RESOURCE_ATTRIBUTES", "team", "key=value"),
        ("OTEL_TRACES_EXPORTER", "jaeger", "otlp"),
        ("OTEL_TRACES_SAMPLER", "sometimes", "parentbased_traceidratio"),
        ("OTEL_TRACES_SAMPLER_ARG", "1.1", "from 0 to 1"),
        ("OTEL_SDK_DISABLED", "yes", "true nor false"),
    ],
)
def test_what_is_wrong_is_refused_by_its_name(name: str, value: str, words: str) -> None:
    others = {"OTEL_TRACES_SAMPLER": "traceidratio"} if name == "OTEL_TRACES_SAMPLER_ARG" else {}
    with pytest.raises(ValueError, match=words) as refused:
        read(**{**others, name: value})
    assert name in str(refused.value)
    assert "secret" not in str(refused.value)


def test_flags_that_go_with_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0.01")
    found = parse(["--fleets", "f", "--traces-per-second", "7"])
    assert found.traces is not None
    assert found.traces.sampling.traces_per_s == 7.0
    assert found.trace_sample_percent == 1.0
    with pytest.raises(BadOptions, match=r"--trace-sample .* set OTEL_TRACES_SAMPLER"):
        parse(["--fleets", "f", "--trace-sample", "5"])
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "nowhere")
    with pytest.raises(BadOptions, match="OTEL_EXPORTER_OTLP_ENDPOINT"):
        parse(["--fleets", "f"])
    with pytest.raises(BadOptions, match="number from 0 to 10000"):
        parse(["--fleets", "f", "--traces-per-second", "x"])
