"""Probe presets: what to request from a replica and what its response means, per kind of model server.

Three probes, as in Kubernetes. *Startup* runs until a replica first passes. *Readiness* asks whether
the model can serve now. *Liveness* asks whether the server is alive at all; it is sent only when
readiness got a response that failed, to tell ``unready`` from ``down``. Pure: the caller sends.

One round, in the words of whoever sends::

    checks = checks_of(probe, protocol, url, model)
    kind = checks.first(has_passed)
    result = checks.judge(kind, status, body)          # or result_of_error(error, checks.timeout_s)
    if checks.needs_liveness(kind, result):
        result = conclude(result, <judged the same way for "liveness">)

and then, if the round has one, the inference probe (:mod:`routing.contract.inference_probe`), and
:func:`routing.contract.health.next_health`.
"""

import json
from collections.abc import Callable
from typing import Literal, NamedTuple
from urllib.parse import quote

import msgspec

from routing.contract import inference_probe, metrics_pages
from routing.contract.addresses import parse_base_url
from routing.contract.metrics_pages import LoadQuery
from routing.contract.probe import Probe
from routing.contract.probe_result import ProbeResult, down, message_of, passed, status_words, unready
from routing.contract.table import ApiProtocol

_USUAL_FIELDS = (("User-Agent", "switchyard-probe"), ("Accept", "*/*"))
_JSON = (("Content-Type", "application/json"),)

ProbeKind = Literal["startup", "readiness", "liveness"]

LLM_TIMEOUT_S = 5.0
"""A language model server may generate a token for its response, or be busy with a long batch."""
TIMEOUT_S = 1.0


class ProbeRequest(NamedTuple):
    """One HTTP request to a replica. ``path`` is the whole request target, base path included."""

    method: str
    path: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


class _ProbeCheck(NamedTuple):
    """What a preset requests for one kind of probe, and how it reads the response."""

    request: Callable[[Probe, str], ProbeRequest]
    judge: Callable[[Probe, int, bytes], ProbeResult]


class ProbePreset(NamedTuple):
    """One kind of model server."""

    timeout_s: float
    words: str
    """For people who choose one."""
    readiness: _ProbeCheck
    liveness: _ProbeCheck
    without_model: str | None = None
    """Path to probe if the model's name is not known; ``None``: readiness does not need the name."""


class Checks(NamedTuple):
    """Everything a prober needs for one replica."""

    probe: Probe
    timeout_s: float
    requests: dict[ProbeKind, ProbeRequest]
    preset: ProbePreset
    load: LoadQuery | None = None
    """Its metrics page; ``None``: it is not read."""
    inference: ProbeRequest | None = None
    """The real request that may follow; ``None``: none."""

    def first(self, has_passed: bool) -> ProbeKind:
        """Which probe opens a round."""
        return "readiness" if has_passed else "startup"

    def judge(self, kind: ProbeKind, status: int, body: bytes) -> ProbeResult:
        """What an HTTP response to this kind of probe means."""
        check = self.preset.liveness if kind == "liveness" else self.preset.readiness
        return check.judge(self.probe, status, body)

    @property
    def load_request(self) -> ProbeRequest:
        """Request for the metrics page. Only if there is one."""
        assert self.load is not None
        return ProbeRequest("GET", self.load.path, (*_USUAL_FIELDS, *_own_fields(self.probe)))

    @property
    def longest_s(self) -> float:
        """How long a round may take: readiness, and liveness or an inference request after it."""
        after_s = 0.0 if self.requests["liveness"] == self.requests["readiness"] else self.timeout_s
        if self.inference is not None:
            after_s = max(after_s, self.probe.inference_timeout_s)
        load_s = 0.0 if self.load is None else metrics_pages.LOAD_PAGE_S
        return max(self.timeout_s + after_s, load_s)

    def judge_inference(self, status: int, body: bytes) -> ProbeResult:
        """What the response to the inference request means."""
        assert self.probe.inference is not None
        return inference_probe.judge(self.probe.inference, status, body)

    def needs_liveness(self, kind: ProbeKind, result: ProbeResult) -> bool:
        """Whether a liveness probe would tell more: the model is not ready, but is the server alive?"""
        asked_already = self.requests["liveness"] == self.requests["readiness"]
        return kind == "readiness" and result.hint == "unready" and not asked_already


def checks_of(probe: Probe, protocol: ApiProtocol, url: str, model: str) -> Checks:
    """The probes of one replica.

    ``url`` is its base URL, ``model`` the name it serves the model under. Raises ValueError when the
    preset is unknown or ``http`` lacks a path; a checked fleet file or API write has neither.
    """
    probe = resolve(probe, protocol)
    preset = preset_named(probe.preset)
    prefix = parse_base_url(url).path_prefix
    readiness = preset.readiness.request(probe, model)
    liveness = preset.liveness.request(probe, model)
    requests: dict[ProbeKind, ProbeRequest] = {
        "startup": _on(prefix, readiness, probe),
        "readiness": _on(prefix, readiness, probe),
        "liveness": _on(prefix, liveness, probe),
    }
    inference = None
    if probe.inference is not None:
        path = inference_probe.path_of(probe.inference, quote(model, safe=""))
        body = inference_probe.body_of(probe, probe.inference, model)
        inference = _on(prefix, ProbeRequest("POST", path, _JSON, body), probe)
    timeout_s = preset.timeout_s if probe.timeout_s is None else probe.timeout_s
    load = metrics_pages.load_query(probe, url, model)
    return Checks(probe, timeout_s, requests, preset, load, inference)


def resolve(probe: Probe, protocol: ApiProtocol) -> Probe:
    """Fill in the probe of a fleet that chose neither preset nor path.

    ``openai``: ``GET /health`` must return 200, which vLLM, SGLang, TGI and llama.cpp all do.
    ``open-inference``: the preset ``kserve-v2``. ``generic``: any response to ``GET /`` below 500.
    """
    if probe.preset != "http" or probe.path is not None:
        return probe
    if protocol == "open-inference":
        return msgspec.structs.replace(probe, preset="kserve-v2")
    if protocol == "openai":
        timeout_s = LLM_TIMEOUT_S if probe.timeout_s is None else probe.timeout_s
        return msgspec.structs.replace(probe, path="/health", timeout_s=timeout_s)
    return msgspec.structs.replace(probe, path="/", accepted_statuses=list(range(200, 500)))


def preset_named(name: str) -> ProbePreset:
    """Raises ValueError that lists the known ones."""
    try:
        return PRESETS[name]
    except KeyError:
        raise ValueError(f'unknown probe preset "{name}": use one of {", ".join(PRESETS)}') from None


def conclude(readiness: ProbeResult, liveness: ProbeResult) -> ProbeResult:
    """One result of a failed readiness probe and the liveness probe that followed it."""
    return readiness if liveness.passed or liveness.own_fault else liveness


def _on(prefix: str, request: ProbeRequest, probe: Probe) -> ProbeRequest:
    headers = (*_USUAL_FIELDS, *request.headers, *_own_fields(probe))
    return request._replace(path=prefix + request.path, headers=headers)


def _own_fields(probe: Probe) -> list[tuple[str, str]]:
    """Those that the operator gave."""
    split = (line.partition(":") for line in probe.headers)
    return [(name.strip(), value.strip()) for name, _, value in split]


def _get(path: str) -> Callable[[Probe, str], ProbeRequest]:
    return lambda probe, model: ProbeRequest("GET", path)


# A server that says in one answer whether it can serve. What 503 means there:
# llama.cpp (server README, "GET /health"): `Loading model`. SGLang 0.5.23 (http_server.py): starts, stops, or
# made no token within 20 s of trying; a good response takes 1 s or more. TGI 3.3.7 (router/src/server.rs): a
# shard does not answer. LitServe 0.2.19 (server.py): a worker is in setup().


def _health(probe: Probe, status: int, body: bytes) -> ProbeResult:
    words = status_words(status, body)
    if status == 200:
        return passed(words)
    return down(words) if status >= 500 and status != 503 else unready(words)


# vLLM: GET /health answers 200 while the engine works and 503 once it is dead; while it loads, refused.


def _vllm(probe: Probe, status: int, body: bytes) -> ProbeResult:
    if status == 200:
        return passed(status_words(status))
    if status == 503:
        said = message_of(body)
        return down("503 engine dead" + (f": {said}" if said else ""))
    return down(status_words(status, body)) if status >= 500 else unready(status_words(status, body))


# Open Inference Protocol (KServe V2), "Health": live, ready and per-model ready. A server can be ready
# while the model is not, so readiness asks for the model. Loading is 400 (Triton, MLServer), 404 or 503.


def _v2_model_ready(probe: Probe, model: str) -> ProbeRequest:
    return ProbeRequest("GET", f"/v2/models/{quote(model, safe='')}/ready")


def _v2_readiness(probe: Probe, status: int, body: bytes) -> ProbeResult:
    words = status_words(status, body)
    if status == 200:
        return (
            unready("200, but the response says that the model is not ready")
            if _denies(body, "ready")
            else passed(words)
        )
    return unready(f"model not ready: {words}")


def _v2_liveness(probe: Probe, status: int, body: bytes) -> ProbeResult:
    if status == 200 and not _denies(body, "live"):
        return passed(status_words(status))
    return down(f"server not live: {status_words(status, body)}")


def _denies(body: bytes, key: str) -> bool:
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(content, dict) and content.get(key) is False


# Ollama (docs/api, "Show model information"): a server is up without any model, so readiness asks whether
# this one is there, which does not load it. 404 where it was not pulled. Its first request loads it.


def _ollama_show(probe: Probe, model: str) -> ProbeRequest:
    body = json.dumps({"model": model}).encode()
    return ProbeRequest("POST", "/api/show", _JSON, body)


def _ollama(probe: Probe, status: int, body: bytes) -> ProbeResult:
    if status == 200:
        return passed(status_words(status))
    return unready(status_words(status, body))


# http: everything as the user says.


def _http_request(probe: Probe, model: str) -> ProbeRequest:
    if probe.path is None:
        raise ValueError("the probe preset http needs a path")
    method = probe.method or ("GET" if probe.body is None else "POST")
    if probe.body is None:
        return ProbeRequest(method, probe.path)
    return ProbeRequest(method, probe.path, _JSON, probe.body.encode("utf-8"))


def _http(probe: Probe, status: int, body: bytes) -> ProbeResult:
    words = status_words(status, body)
    accepted = [200] if probe.accepted_statuses is None else probe.accepted_statuses
    if status not in accepted:
        return unready(words + (" (redirects are not followed)" if 300 <= status < 400 else ""))
    if probe.body_contains is not None and probe.body_contains.encode("utf-8") not in body:
        return unready(f'{status}, but the response does not contain "{probe.body_contains}"')
    return passed(words)


def _one_health_page(words: str, judge: Callable[[Probe, int, bytes], ProbeResult] = _health) -> ProbePreset:
    check = _ProbeCheck(_get("/health"), judge)
    return ProbePreset(LLM_TIMEOUT_S, words, check, check)


def _v2(server: str) -> ProbePreset:
    words = "`GET /v2/models/{model}/ready` is 200; if not, `GET /v2/health/live` tells unready from down"
    live = _ProbeCheck(_get("/v2/health/live"), _v2_liveness)
    ready = _ProbeCheck(_v2_model_ready, _v2_readiness)
    return ProbePreset(TIMEOUT_S, server + words, ready, live, without_model="/v2/health/ready")


PRESETS: dict[str, ProbePreset] = {
    "llama.cpp": _one_health_page(
        "`GET /health` is 200; 503 `Loading model` is not ready yet; other 5xx is down"
    ),
    "kserve-v2": _v2(""),
    "vllm": _one_health_page("`GET /health` is 200; 503 is a dead engine and, as other 5xx, down", _vllm),
    "sglang": _one_health_page(
        "`GET /health` is 200, which takes SGLang 1 s or more; 503 is not ready; other 5xx is down"
    ),
    "tgi": _one_health_page("`GET /health` is 200; 503 `unhealthy` is not ready; other 5xx is down"),
    "triton": _v2("as `kserve-v2`: "),
    "mlserver": _v2("as `kserve-v2`: "),
    "ollama": ProbePreset(
        LLM_TIMEOUT_S,
        "`POST /api/show` knows the model; if not, `GET /api/version` tells unready from down",
        _ProbeCheck(_ollama_show, _ollama),
        _ProbeCheck(_get("/api/version"), _health),
        without_model="/api/version",
    ),
    "litserve": _one_health_page("`GET /health` is 200; 503 `not ready` is not ready; other 5xx is down"),
    "http": ProbePreset(
        TIMEOUT_S,
        "what `path`, `method`, `body`, `accepted_statuses` and `body_contains` say",
        _ProbeCheck(_http_request, _http),
        _ProbeCheck(_http_request, _http),
    ),
}
