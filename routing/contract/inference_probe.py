"""Inference probe: one tiny real request to a replica, and whether its answer is one of its protocol.

A page of health says what a server thinks of itself. This says whether it answers: a driver that is gone, a
model that is not there under this name, a front without a back. Optional, because it takes a place at the
replica: it follows a readiness probe that has passed, every ``inference_period_s`` while the replica is
ready, and each time while it is not.

The same requests, so many answered in a row, are a replica's *warm-up* before its first traffic: servers
compile, and fill their caches, with their first requests. Pure: the caller sends.
"""

import json
import zlib
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from routing.contract.probe import Probe
from routing.contract.probe_result import ProbeResult, passed, status_words, unready

InferenceKind = Literal["chat", "completions", "embeddings", "v2"]

MAX_ANSWER_BYTES = 1_048_576
"""An embedding may have thousands of numbers."""

MARGIN = 1.25
"""Rounds come a little late: the window in which one of them asks is so much wider than a period."""

_BUSY = (429, 503)


class _Inference(NamedTuple):
    path: Callable[[str], str]
    body: Callable[[str], dict[str, Any] | None]
    """``None``: only the operator knows one."""
    holds: str
    """Field of an answer, a list that is not empty."""


def _at(path: str) -> Callable[[str], str]:
    return lambda model: path


INFERENCES: Mapping[InferenceKind, _Inference] = {
    "chat": _Inference(
        _at("/v1/chat/completions"),
        lambda model: {
            "model": model,
            "messages": [{"role": "user", "content": "ping"}],
            "max_tokens": 1,
            "temperature": 0,
        },
        "choices",
    ),
    "completions": _Inference(
        _at("/v1/completions"),
        lambda model: {"model": model, "prompt": "ping", "max_tokens": 1, "temperature": 0},
        "choices",
    ),
    "embeddings": _Inference(_at("/v1/embeddings"), lambda model: {"model": model, "input": "ping"}, "data"),
    # A model's inputs have names, types and shapes of their own.
    "v2": _Inference(lambda model: f"/v2/models/{model}/infer", lambda model: None, "outputs"),
}


def path_of(kind: InferenceKind, model: str) -> str:
    """Of the request; ``model`` is percent-encoded where it is part of a path."""
    return INFERENCES[kind].path(model)


def body_of(probe: Probe, kind: InferenceKind, model: str) -> bytes:
    """What is sent. Raises ValueError where only the operator could say it, and has not."""
    if probe.inference_body is not None:
        return probe.inference_body.encode()
    body = INFERENCES[kind].body(model)
    if body is None:
        raise ValueError(f'the inference probe {kind} needs "inference_body"')
    return json.dumps(body).encode()


def judge(kind: InferenceKind, status: int, body: bytes) -> ProbeResult:
    """What an HTTP response to it means."""
    words = status_words(status, body)
    if status != 200:
        # A full server is not a broken one, as long as it answers others.
        return unready(words)._replace(inconclusive=status in _BUSY)
    field = INFERENCES[kind].holds
    return passed(words) if _holds(body, field) else unready(f'{words}, but the answer has no "{field}"')


def conclude_with(readiness: ProbeResult, inference: ProbeResult) -> ProbeResult:
    """One result of a readiness probe that passed and the inference request that followed it. Whatever
    became of that: the server is there, so at the worst it is not ready."""
    if inference.passed:
        return passed(f"{readiness.words}, and an inference request was answered")
    words = f"{readiness.words}, but an inference request failed: {inference.words}"
    return unready(words)._replace(inconclusive=inference.inconclusive, own_fault=inference.own_fault)


def is_due(probe: Probe, uid: str, *, settled: bool, now_s: float) -> bool:
    """Whether a round's readiness probe is to be followed by an inference probe.

    ``settled``: the replica is ready, and its last probe passed. Then one round in ``inference_period_s``
    asks, at a time of its own for each replica; any round may be another process's, so it follows from the
    clock (``now_s``, by the wall) alone. A round that comes very late may miss its turn.
    """
    if probe.inference is None:
        return False
    period_s = probe.inference_period_s
    if not settled or period_s <= probe.period_s * MARGIN:
        return True
    phase_s = zlib.crc32(uid.encode()) % 100_000 / 100_000 * period_s
    return (now_s + phase_s) % period_s < probe.period_s * MARGIN


def _holds(body: bytes, field: str) -> bool:
    if len(body) >= MAX_ANSWER_BYTES:
        return f'"{field}"'.encode() in body  # cut off, so no JSON
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return isinstance(content, dict) and isinstance(content.get(field), list) and bool(content[field])
