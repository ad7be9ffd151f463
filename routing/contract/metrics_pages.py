"""Metrics pages of model servers (Prometheus text format): where each reports its load, and how it is read.

Only the few metrics of the preset are read from a page. Several samples of one metric come from a server's
engines, ranks or models: request counts are added up, of shares the largest is taken.

Names, from the servers' own sources and manuals: vLLM ``v1/metrics/loggers.py`` (``gpu_cache_usage_perc``
before 0.10), SGLang ``managers/scheduler_metrics``, TGI ``router/src``, llama.cpp server README "GET
/metrics", Triton "Metrics", Ollama ``docs/api`` "List Running Models", BentoML "Default metrics".
"""

import re
from collections.abc import Callable, Mapping
from math import nan
from typing import NamedTuple

import msgspec

from routing.contract.addresses import parse_base_url
from routing.contract.load_report import ReportedLoad, byte_count, fraction, parse_number, request_count
from routing.contract.probe import Probe
from routing.contract.probe_result import status_words

MAX_PAGE_BYTES = 1_048_576
"""As much of a page as is read; vLLM's, with its histograms, has some 100 KB."""
LOAD_PAGE_S = 1.0
"""Time limit for the whole page. Short, because nothing depends on the page."""
MAX_SAMPLES = 4096
"""A page with more samples of these few metrics is not a model server's."""

PROMETHEUS = "/metrics"


class NoLoadFigures(ValueError):
    """The page reports no load; the text says why."""


class LoadPage(NamedTuple):
    """Where a kind of server reports its load. ``port`` ``None``: the port of its base URL."""

    path: str
    port: int | None
    words: str
    """What is read, for people."""
    read: Callable[[bytes, str], ReportedLoad]
    """The page's bytes, and the name that the model has there. Raises NoLoadFigures."""

    @property
    def place(self) -> str:
        return f"`{self.path}`" if self.port is None else f"`:{self.port}{self.path}`"


class LoadQuery(NamedTuple):
    """The page of one replica."""

    url: str
    """Base URL of the server that has the page."""
    path: str
    """Whole request target."""
    model: str
    page: LoadPage

    def judge(self, status: int, body: bytes) -> ReportedLoad:
        """The load in a response, or a report of why there is none."""
        if status != 200:
            return self.silent(status_words(status, body))
        try:
            return self.page.read(body, self.model)
        except NoLoadFigures as error:
            return self.silent(str(error))

    def silent(self, words: str) -> ReportedLoad:
        """The report of a page that could not be read."""
        return ReportedLoad(problem=f"{self.path}: {words}")


def load_query(probe: Probe, url: str, model: str) -> LoadQuery | None:
    """Metrics page of one replica; ``None``: none is read. ``probe`` is resolved, ``url`` the replica's base
    URL."""
    if not probe.load_reports:
        return None
    page = PAGES.get(probe.preset)
    if page is None:
        if probe.metrics_path is None:
            return None
        page = ANY
    base = parse_base_url(url)
    path = page.path if probe.metrics_path is None else probe.metrics_path
    port = page.port if probe.metrics_port is None else probe.metrics_port
    if port is None or port == base.port:
        return LoadQuery(url, base.path_prefix + path, model, page)
    host = base.authority.rpartition(":")[0]
    return LoadQuery(f"{base.scheme}://{host}:{port}", path, model, page)


# --- Prometheus's text format ---
# https://prometheus.io/docs/instrumenting/exposition_formats/: name, labels in braces (their values in
# quotes, with \\ \" \n), value, perhaps a time.

_LABELS = rb'(\{(?:[^"\n}]|"(?:[^"\\\n]|\\.)*+")*+\})?'

_RUNNING, _WAITING, _KV, _USED, _TOTAL = "running", "waiting", "kv", "used", "total"

_NAMES: dict[str, dict[str, str]] = {
    "vllm": {
        "vllm:num_requests_running": _RUNNING,
        "vllm:num_requests_waiting": _WAITING,
        "vllm:kv_cache_usage_perc": _KV,
        "vllm:gpu_cache_usage_perc": _KV,
    },
    "sglang": {
        "sglang:num_running_reqs": _RUNNING,
        "sglang:num_queue_reqs": _WAITING,
        "sglang:token_usage": _KV,
    },
    "tgi": {"tgi_batch_current_size": _RUNNING, "tgi_queue_size": _WAITING},
    "llama.cpp": {
        "llamacpp:requests_processing": _RUNNING,
        "llamacpp:requests_deferred": _WAITING,
        "llamacpp:kv_cache_usage_ratio": _KV,
    },
    "triton": {
        "nv_inference_pending_request_count": _WAITING,
        "nv_gpu_memory_used_bytes": _USED,
        "nv_gpu_memory_total_bytes": _TOTAL,
    },
    "bentoml": {"bentoml_service_request_in_progress": _RUNNING},
}
"""Server → name of a metric → what it measures."""

_REPEATED = re.compile(rb'\b(?:[tp]p_rank="(?!0")|priority="(?!"))')
"""Labels of samples that count the same requests again: ranks of one engine share its batch, and SGLang
counts waiting requests by priority as well as in total."""
_OF_A_MODEL = "nv_inference_pending_request_count"
_MODEL = re.compile(rb'[{,]model="((?:[^"\\]|\\.)*+)"')


def _prometheus(names: Mapping[str, str]) -> Callable[[bytes, str], ReportedLoad]:
    known = {name.encode(): what for name, what in names.items()}
    either = b"|".join(re.escape(name) for name in known)
    sample = re.compile(rb"\n(" + either + rb")" + _LABELS + rb"[ \t]++([^ \t\r\n]++)")

    def read(page: bytes, model: str) -> ReportedLoad:
        found: dict[str, list[float]] = {}
        # A line that is cut off is left out.
        whole = page if len(page) < MAX_PAGE_BYTES else page[: page.rfind(b"\n") + 1]
        for line, (name, labels, value) in enumerate(sample.findall(b"\n" + whole)):
            if line >= MAX_SAMPLES:
                raise NoLoadFigures(f"more than {MAX_SAMPLES} samples of load metrics")
            if _REPEATED.search(labels) or _is_of_another_model(name, labels, model):
                continue
            found.setdefault(known[name], []).append(parse_number(value))
        return _load(found, names)

    return read


def _is_of_another_model(name: bytes, labels: bytes, model: str) -> bool:
    if name != _OF_A_MODEL.encode() or not model:
        return False
    named = _MODEL.search(labels)
    return named is not None and named[1] != model.encode()


def _load(found: dict[str, list[float]], names: Mapping[str, str]) -> ReportedLoad:
    if not found:
        listed = ", ".join(names)
        raise NoLoadFigures(f"the page has none of {listed}")
    used = byte_count(_sum(found, _USED))
    total = _sum(found, _TOTAL)
    load = ReportedLoad(
        running=request_count(_sum(found, _RUNNING)),
        waiting=request_count(_sum(found, _WAITING)),
        kv_share=_largest_share(found.get(_KV, [])),
        memory_share=fraction(used / total) if used is not None and total > 0 else None,
        memory_bytes=used,
    )
    if load == ReportedLoad():
        raise NoLoadFigures("the load metrics on the page are not valid numbers")
    return load


def _sum(found: dict[str, list[float]], what: str) -> float:
    """NaN if there is no value or one of them is not a valid count."""
    values = found.get(what)
    return sum(values) if values and min(values) >= 0 else nan


def _largest_share(values: list[float]) -> float | None:
    shares = [fraction(value) for value in values]
    known = [each for each in shares if each is not None]
    return max(known) if len(known) == len(values) and known else None


# --- Ollama ---


class _OllamaModel(msgspec.Struct):
    name: str = ""
    size_vram: int = 0


class _OllamaModels(msgspec.Struct):
    models: list[_OllamaModel]


def _ollama(page: bytes, model: str) -> ReportedLoad:
    try:
        listed = msgspec.json.decode(page, type=_OllamaModels).models
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise NoLoadFigures("the page is not a list of loaded models") from None
    wanted = model if ":" in model else f"{model}:latest"
    held = sum(each.size_vram for each in listed if not model or each.name in (model, wanted))
    memory_bytes = byte_count(held)
    if memory_bytes is None:
        raise NoLoadFigures("the memory size on the page is not a valid number")
    return ReportedLoad(memory_bytes=memory_bytes)


# --- By preset ---


def _page(server: str, port: int | None = None) -> LoadPage:
    names = _NAMES[server]
    return LoadPage(PROMETHEUS, port, ", ".join(f"`{name}`" for name in names), _prometheus(names))


PAGES: dict[str, LoadPage] = {
    "vllm": _page("vllm"),
    "sglang": _page("sglang"),
    "tgi": _page("tgi"),
    "llama.cpp": _page("llama.cpp"),
    "triton": _page("triton", port=8002),
    "ollama": LoadPage("/api/ps", None, "`size_vram`", _ollama),
}
"""By probe preset."""

_ALL_NAMES = {name: what for names in _NAMES.values() for name, what in names.items()}
ANY = LoadPage(PROMETHEUS, None, "any of these names", _prometheus(_ALL_NAMES))
"""A page whose kind of server is not known, only its path."""
