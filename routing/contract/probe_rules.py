"""Validation rules of a fleet's probe. Defaults are in :mod:`routing.contract.probe`."""

import json
import re
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
from routing.contract.inference_probe import INFERENCES
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


_FIELD = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?)[ \t]*")
_OURS = ("host", "content-length", "transfer-encoding", "connection", "content-type", "user-agent", "accept")


def _header_field(text: str) -> str:
    matched = _FIELD.fullmatch(text)
    if matched is None or len(text) > 1000:
        raise ValueError(
            f'"{text[:80]}" is no header field: write one as "Name: value", in at most 1000 ASCII characters'
        )
    name = matched[1].lower()
    if name in _OURS:
        raise ValueError(f"{matched[1]} is set by the probe itself: remove it")
    if name == "authorization":
        raise ValueError('a token does not belong here, where everybody reads it: use "credential"')
    return text


def _json_object(text: str) -> str:
    _at_most(65_536)(text)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is not JSON: {error}") from None
    if not isinstance(content, dict):
        raise ValueError('must be a JSON object, for example {"inputs": [...]}')
    return text


_CUSTOM_PROBE_FIELDS = ("path", "method", "body", "accepted_statuses", "body_contains")


def _probe_fields_together(fields: Mapping[str, Any], at: str, problems: Problems) -> None:
    _inference_fields_together(fields, at, problems)
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


def _inference_fields_together(fields: Mapping[str, Any], at: str, problems: Problems) -> None:
    kind = fields.get("inference")
    if kind is None:
        for name in ("inference_body", "warm_up"):
            if fields.get(name):
                cure = f'add "inference", for example inference: chat, or remove "{name}"'
                message = f"needs an inference probe: {cure}"
                problems.append(FieldProblem(below(at, name), message, at_key=True))
    elif kind == "v2" and fields.get("inference_body") is None:
        message = (
            'a model\'s inputs are its own: add "inference_body", a small request as the model takes it, for '
            'example {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [0, 0, 0, 0]}]}'
        )
        problems.append(FieldProblem(below(at, "inference"), message, at_key=True))


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
        "flap_damping": Flag(
            words="A replica that was lost three times in a few minutes needs more than `rise` passes, for "
            "at most 60 s, unless less than half of the fleet is ready."
        ),
        "headers": ListOf(
            words="Fields that each request of a probe has as well.",
            item=Text(words="`Name: value`.", what="header field", check=_header_field),
            plural="header fields (`Name: value`)",
            at_most=32,
        ),
        "inference": Choice(
            words="A small real request follows a probe that has passed, and its answer decides: "
            "`/v1/chat/completions`, `/v1/completions`, `/v1/embeddings` or V2's `infer`. Not set: none.",
            options=tuple(INFERENCES),
            nullable=True,
        ),
        "inference_body": Text(
            words="Its body. Not set: one token is asked for. `v2` needs it.",
            what="JSON object, as text",
            check=_json_object,
            nullable=True,
        ),
        "inference_period_s": seconds(
            "Time between two of them while the replica is ready. While it is not, each probe that passes is "
            "followed by one.",
            1,
            3600,
        ),
        "inference_timeout_s": seconds("Time limit of one.", 0.1, 120),
        "warm_up": Number(
            words="So many of them have to be answered in a row before a replica that starts, or was `down`, "
            "gets traffic.",
            minimum=0,
            maximum=100,
            whole=True,
        ),
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
            at_most=400,
            distinct=True,
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
