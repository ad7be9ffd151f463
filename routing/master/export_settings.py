"""Export settings: where traces go, from OpenTelemetry's own environment variables.

Nothing is exported unless one of them names an endpoint. Their meaning is that of the specification. What is
wrong is refused at the start: a proxy that seems to be traced and is not would be noticed when it is needed.
Source: https://opentelemetry.io/docs/specs/otel/protocol/exporter/ and
https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/.
"""

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec

from routing.contract.tracing import TracingSettings

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
TRACES_ENDPOINT = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
_PATH = "/v1/traces"
_PROTOCOL = "http/protobuf"
_COMPRESSIONS = ("gzip", "none")
_MIN_TIMEOUT_MS, _MAX_TIMEOUT_MS = 100, 60_000
_SERVICE = "switchyard-proxy"
_WITH_RATIO = "traceidratio"
_RATIOS = {"always_on": 1.0, "always_off": 0.0, _WITH_RATIO: 1.0}
_PARENT_BASED = "parentbased_"
SAMPLERS = (*(_PARENT_BASED + name for name in _RATIOS), *_RATIOS)


class ExportSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Of one proxy that exports traces."""

    endpoint: str
    """URL that batches are posted to."""
    headers: dict[str, str]
    """Of each post; they may hold a secret."""
    timeout_s: float
    """For one batch, with all its retries."""
    compressed: bool
    certificate: str | None
    """File of the authorities that the receiver's certificate is verified by; ``None``: the usual ones."""
    client_certificate: str | None
    client_key: str | None
    service: str
    resource: dict[str, str]
    """Further attributes of the proxy."""
    sampling: TracingSettings


def from_environment(environment: Mapping[str, str], traces_per_s: float) -> ExportSettings | None:
    """The settings; ``None``: traces are not exported. Raises ValueError, with the variable's name."""
    said = _Variables(environment)
    endpoint = _endpoint(said)
    if endpoint is None or said.flag("OTEL_SDK_DISABLED"):
        return None
    exporter = said.text("OTEL_TRACES_EXPORTER") or "otlp"
    if exporter == "none":
        return None
    if exporter != "otlp":
        raise ValueError(f"OTEL_TRACES_EXPORTER={exporter!r}: traces go out by otlp, or by none")
    name, protocol = said.of_traces("PROTOCOL")
    if protocol not in ("", _PROTOCOL):
        raise ValueError(f"{name}={protocol!r}: the proxy speaks {_PROTOCOL}; set that, or leave it out")
    name, compression = said.of_traces("COMPRESSION")
    if compression and compression not in _COMPRESSIONS:
        raise ValueError(f"{name}={compression!r} is not one of {', '.join(_COMPRESSIONS)}")
    resource = said.pairs("OTEL_RESOURCE_ATTRIBUTES")
    client_certificate, client_key = said.file("CLIENT_CERTIFICATE"), said.file("CLIENT_KEY")
    if client_key is not None and client_certificate is None:
        raise ValueError("OTEL_EXPORTER_OTLP_CLIENT_KEY goes with OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE")
    return ExportSettings(
        endpoint=endpoint,
        headers=_headers(said),
        timeout_s=_timeout_s(said),
        compressed=compression != "none",
        certificate=said.file("CERTIFICATE"),
        client_certificate=client_certificate,
        client_key=client_key,
        service=said.text("OTEL_SERVICE_NAME") or resource.pop("service.name", "") or _SERVICE,
        resource={key: value for key, value in resource.items() if key != "service.name"},
        sampling=_sampling(said, traces_per_s),
    )


class _Variables:
    """The environment, as the specification reads it: an empty variable is one that is not set."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment

    def text(self, name: str) -> str:
        return self._environment.get(name, "").strip()

    def flag(self, name: str) -> bool:
        value = self.text(name).lower()
        if value not in ("", "true", "false"):
            raise ValueError(f"{name}={value!r} is neither true nor false")
        return value == "true"

    def of_traces(self, name: str) -> tuple[str, str]:
        """Name and value of what is set for traces, else for all that is exported."""
        for prefix in ("OTEL_EXPORTER_OTLP_TRACES_", "OTEL_EXPORTER_OTLP_"):
            if value := self.text(prefix + name):
                return prefix + name, value
        return "", ""

    def file(self, name: str) -> str | None:
        name, path = self.of_traces(name)
        if path and not Path(path).is_file():
            raise ValueError(f"{name}={path!r}: there is no such file")
        return path or None

    def pairs(self, name: str, text: str | None = None) -> dict[str, str]:
        """``key=value,…``, with values in percent-encoding, as W3C Baggage writes them."""
        found = {}
        for pair in (self.text(name) if text is None else text).split(","):
            key, equals, value = pair.partition("=")
            if not pair.strip():
                continue
            if not (key.strip() and equals):
                # Not the pair itself: it may be a secret.
                raise ValueError(f"{name} is not a list of key=value, with commas between")
            found[key.strip()] = unquote(value.strip())
        return found


def _endpoint(said: _Variables) -> str | None:
    name, url = TRACES_ENDPOINT, said.text(TRACES_ENDPOINT)
    if not url:
        name, url = ENDPOINT, said.text(ENDPOINT)
        if not url:
            return None
    example = "such as http://127.0.0.1:4318"
    try:
        parts = urlsplit(url)
        has_address = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        has_address = False
    if not has_address or parts.scheme not in ("http", "https"):
        raise ValueError(f"{name} is not the http or https URL of a receiver, {example}")
    if parts.username is not None:
        raise ValueError(f"{name} must hold no user or password: set OTEL_EXPORTER_OTLP_HEADERS for those")
    if parts.query or parts.fragment:
        raise ValueError(f"{name} must have no query and no fragment")
    return url if name == TRACES_ENDPOINT else url.removesuffix("/") + _PATH


def _headers(said: _Variables) -> dict[str, str]:
    name, text = said.of_traces("HEADERS")
    found = said.pairs(name, text)
    for key, value in found.items():
        if not (key.isascii() and key.replace("-", "").replace("_", "").isalnum() and value.isprintable()):
            raise ValueError(f"{name}: {key[:40]!r} or its value is not a header field")
    return found


def _timeout_s(said: _Variables) -> float:
    name, text = said.of_traces("TIMEOUT")
    if not text:
        return 10.0
    if not (text.isascii() and text.isdigit() and _MIN_TIMEOUT_MS <= int(text) <= _MAX_TIMEOUT_MS):
        bounds = f"{_MIN_TIMEOUT_MS} to {_MAX_TIMEOUT_MS}"
        raise ValueError(f"{name}={text!r} is not a whole number of milliseconds from {bounds}")
    return int(text) / 1000


def _sampling(said: _Variables, traces_per_s: float) -> TracingSettings:
    sampler = said.text("OTEL_TRACES_SAMPLER") or _PARENT_BASED + "always_on"
    root = sampler.removeprefix(_PARENT_BASED)
    if sampler not in SAMPLERS:
        raise ValueError(f"OTEL_TRACES_SAMPLER={sampler!r} is not one of {', '.join(SAMPLERS)}")
    ratio, text = _RATIOS[root], said.text("OTEL_TRACES_SAMPLER_ARG")
    if text and root == _WITH_RATIO:
        try:
            ratio = float(text)
        except ValueError:
            ratio = -1.0
        if not 0.0 <= ratio <= 1.0:
            raise ValueError(f"OTEL_TRACES_SAMPLER_ARG={text!r} is not a share from 0 to 1")
    return TracingSettings(ratio=ratio, follows_parent=root != sampler, traces_per_s=traces_per_s)
