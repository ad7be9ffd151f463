"""Inference paths: what a path opens, by the known APIs (OpenAI and related, Open Inference Protocol).

``docs/proxy.md`` has the table of calls; a test reads it there.
"""

import re
from functools import lru_cache

from routing.contract.exposure import ANY_PATH, INFERENCE_CALL, NO_MANAGEMENT
from routing.protocols.errors import BARE_PATHS
from routing.protocols.management_paths import is_management, says_management
from routing.protocols.path_forms import forms_of, path_of

AMBIGUOUS = 0
"""Of a path that is refused in every fleet."""

_EVERY_BIT = ANY_PATH | NO_MANAGEMENT | INFERENCE_CALL
_READS = frozenset({b"GET", b"HEAD", b"OPTIONS"})
_MOST_KEPT, _LONGEST_KEPT = 1024, 256

_USUAL = frozenset(
    (
        *BARE_PATHS,
        *(b"/v1/chat/completions", b"/v1/completions", b"/v1/embeddings", b"/v1/responses", b"/v1/messages"),
        *(b"/v1/messages/count_tokens", b"/v1/rerank", b"/v1/score", b"/v1/audio/transcriptions"),
        *(b"/v1/audio/translations", b"/v1/audio/speech", b"/v1/images/generations", b"/v1/moderations"),
    )
)
_POSTED = frozenset(
    (
        *BARE_PATHS,
        # Native calls beside these APIs: SGLang, TGI, llama.cpp, SageMaker's containers.
        *(b"/generate", b"/generate_stream", b"/encode", b"/invocations", b"/completion", b"/completions"),
        *(b"/chat/completions", b"/embedding", b"/embeddings", b"/embed", b"/reranking", b"/infill"),
        *(b"/apply-template", b"/predict", b"/v2/repository/index"),
    )
)
_READ = frozenset(
    (
        *(b"/health", b"/health_generate", b"/ping", b"/version", b"/info", b"/model_info"),
        *(b"/get_model_info", b"/props", b"/models", b"/v2", b"/v2/health/live", b"/v2/health/ready"),
        *(b"/v2/models", b"/v2/repository/index"),
    )
)
_BELOW = re.compile(rb"(?:/openai)?/v1(?:/|\Z)|/openai/deployments/")
"""Everything below is a call, unless it is a management path or has a word for management in it. Clients use
calls there that are in no list, and servers have management paths there that are in no list either."""
_MODEL = b"/v2/models/"
_MODEL_CALL = re.compile(rb"/v2/models/.+/(?:infer|infer_stream|generate|generate_stream|explain)")


def opened_by(method: bytes, target: bytes) -> int:
    """What must be exposed, one of the bits of :mod:`routing.contract.exposure`, for a request to pass; or
    :data:`AMBIGUOUS`."""
    if method == b"POST" and target in _USUAL:
        return _EVERY_BIT
    path = path_of(target)
    return _opened_by(method, path) if len(path) <= _LONGEST_KEPT else _look(method, path)


def _look(method: bytes, path: bytes) -> int:
    forms = forms_of(path)
    if forms is None:
        return AMBIGUOUS
    bits = _EVERY_BIT
    for form in forms:
        bits &= _bits_of(method, form)
    return bits


_opened_by = lru_cache(_MOST_KEPT)(_look)
"""For requests whose route is made anew each time."""


def _bits_of(method: bytes, form: bytes) -> int:
    if is_management(method, form):
        return ANY_PATH
    return _EVERY_BIT if _is_inference(method, form) else ANY_PATH | NO_MANAGEMENT


def _is_inference(method: bytes, form: bytes) -> bool:
    if _BELOW.match(form) is not None and not says_management(form):
        return True
    if form in _POSTED and method in (b"POST", b"OPTIONS"):
        return True
    if method in _READS and (form in _READ or form.startswith(_MODEL)):
        return True
    return method == b"POST" and _MODEL_CALL.fullmatch(form) is not None
