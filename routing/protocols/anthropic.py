"""The Anthropic API: ``POST /v1/messages``, which vLLM, SGLang and llama.cpp speak beside the OpenAI API.

Its requests are read as those of the OpenAI API: ``model``, ``stream`` and ``max_tokens`` bear the same
names. What differs are errors, and the list of models. Source: docs.claude.com/en/api/errors, …/models-list.
"""

import msgspec

_MESSAGES = b"/v1/messages"
_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}
"""Of the statuses that have a word of their own. 503 has none there (529 has), and means the same: later."""
_UNKNOWN_DATE = "1970-01-01T00:00:00Z"


class _AnthropicModel(msgspec.Struct):
    id: str
    display_name: str
    type: str = "model"
    created_at: str = _UNKNOWN_DATE


def is_path(target: bytes) -> bool:
    """Whether only this API has such a path."""
    path = target.partition(b"?")[0]
    return path == _MESSAGES or path.startswith(_MESSAGES + b"/")


def has_version_header(fields: bytes) -> bool:
    """Whether the caller says that it speaks this API, in the fields of its head (each preceded by CRLF)."""
    return b"\r\nanthropic-version:" in fields.lower()


def error_body(status: int, code: str, message: str, request_id: str) -> bytes:
    kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "api_error")
    error = {"type": kind, "message": message, "details": {"error_code": code}}
    return msgspec.json.encode({"type": "error", "error": error, "request_id": request_id})


def model_list(names: list[str]) -> bytes:
    """Answer to ``GET /v1/models``: all of them on one page."""
    models = [_AnthropicModel(name, name) for name in names]
    first, last = (names[0], names[-1]) if names else (None, None)
    return msgspec.json.encode({"data": models, "has_more": False, "first_id": first, "last_id": last})


def model_object(name: str) -> bytes:
    """Answer to ``GET /v1/models/{model}``."""
    return msgspec.json.encode(_AnthropicModel(name, name))
