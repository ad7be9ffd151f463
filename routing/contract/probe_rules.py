"""Validation rules of a fleet's probe. Defaults are in :mod:`routing.contract.probe`."""

from collections.abc import Callable, Mapping
from typing import Any

from routing.contract.field_rules import (
    Choice,
    FieldProblem,
    Flag,
    ListOf,
    Number,
    Problems,
    Section,
    Text,
    below,
    count,
    seconds,
)
from routing.contract.metrics_pages import PAGES
from routing.contract.probe_presets import PRESETS

DAY_S = 86_400.0


def _probe_path(text: str) -> str:
    if not text.startswith("/"):
        raise ValueError(f'"{text[:80]}" is not a path: begin it with a slash')
    if len(text) > 500 or not text.isascii() or not text.isprintable() or " " in text or "#" in text:
        raise ValueError("must be at most 500 ASCII characters without spaces or #: percent-encode others")
    return text


def _at_most(limit: int, at_least: int = 0) -> Callable[[str], str]:
    def check(text: str) -> str:
        if not at_least <= len(text) <= limit:
            raise ValueError(f"must be {at_least} to {limit} characters long, not {len(text)}")
        return text

    return check


_CUSTOM_PROBE_FIELDS = ("path", "method", "body", "accepted_statuses", "body_contains")


def _probe_fields_together(fields: Mapping[str, Any], at: str, problems: Problems) -> None:
    custom = [name for name in _CUSTOM_PROBE_FIELDS if fields.get(name) is not None]
    preset = fields.get("preset", "http")
    _load_fields_together(preset, fields, at, problems)
    if preset != "http":
        for name in custom if preset in PRESETS else ():
            message = f'the preset {preset} has its own requests: remove "{name}", or set preset: http'
            problems.append(FieldProblem(below(at, name), message, at_key=True))
        return
    if ("preset" in fields or custom) and fields.get("path") is None:
        message = 'the probe preset http needs "path": add it, for example path: /healthz'
        problems.append(FieldProblem(at, message))
    method = fields.get("method")
    if fields.get("body") is not None and method in ("GET", "HEAD"):
        message = f'a {method} request carries no body: remove "body", or set method: POST'
        problems.append(FieldProblem(below(at, "body"), message, at_key=True))
    if fields.get("body_contains") is not None and method == "HEAD":
        message = 'the response to HEAD has no body: remove "body_contains", or set method: GET'
        problems.append(FieldProblem(below(at, "body_contains"), message, at_key=True))


def _load_fields_together(preset: object, fields: Mapping[str, Any], at: str, problems: Problems) -> None:
    if fields.get("metrics_port") is None or fields.get("metrics_path") is not None:
        return
    if preset in PRESETS and preset not in PAGES:
        message = 'this preset has no metrics page: add "metrics_path", for example /metrics'
        problems.append(FieldProblem(below(at, "metrics_port"), message, at_key=True))


PROBE = Section(
    words="How the replicas are probed.",
    what="a probe",
    fields={
        "preset": Choice(words="What to request and how to read the response.", options=tuple(PRESETS)),
        "period_s": seconds("Time between two probes of a replica, jittered by 20 %.", 0.5, 3600),
        "timeout_s": seconds(
            "Time limit of one probe. Not set: 5 for language models, else 1.", 0.05, 60, nullable=True
        ),
        "rise": count("Passed probes in a row before a replica that has been ready is ready again.", 100),
        "fall": count("Failed probes in a row before a ready replica is unready or down.", 100),
        "startup_budget_s": seconds("How long a replica that has never passed stays `checking`.", 0, DAY_S),
        "path": Text(
            words="Preset `http`: path of the request, appended to the replica's base URL.",
            what="path",
            check=_probe_path,
            nullable=True,
        ),
        "method": Choice(
            words="Preset `http`: method of the request. Not set: `POST` with a body, else `GET`.",
            options=("GET", "HEAD", "POST"),
            nullable=True,
        ),
        "body": Text(
            words="Preset `http`: request body, sent as `application/json`.",
            check=_at_most(65_536),
            nullable=True,
        ),
        "accepted_statuses": ListOf(
            words="Preset `http`: status codes that pass. Not set: 200.",
            item=Number(words="Status code.", minimum=200, maximum=599, whole=True),
            plural="status codes, 200 to 599",
            at_least=1,
            nullable=True,
        ),
        "body_contains": Text(
            words="Preset `http`: text that the response body must contain.",
            check=_at_most(1000, at_least=1),
            nullable=True,
        ),
        "load_reports": Flag(
            words="Read the replica's metrics page with each probe, if preset or `metrics_path` names one."
        ),
        "metrics_path": Text(
            words="Path of the metrics page (Prometheus text format). Not set: the preset's.",
            what="path",
            check=_probe_path,
            nullable=True,
        ),
        "metrics_port": Number(
            words="Port of the metrics page. Not set: the preset's, else the replica's own.",
            minimum=1,
            maximum=65_535,
            whole=True,
            nullable=True,
        ),
        "load_header": Flag(
            words="Ask for an ORCA load report with each request: replicas (vLLM, Triton) send it in the "
            "response header `endpoint-load-metrics`."
        ),
    },
    cross_check=_probe_fields_together,
)


def check_probe(settings: Mapping[str, Any]) -> tuple[dict[str, Any], list[FieldProblem]]:
    """The fields of a :class:`routing.contract.probe.Probe` that were set and are valid, and all problems."""
    problems: Problems = []
    return PROBE.read_fields(settings, "", problems), problems
