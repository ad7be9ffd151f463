"""The Open Inference Protocol (KServe V2): what is asked of a server itself, and how it answers.

Whether it lives, is ready and what it is; which models it has (``POST /v2/repository/index``, of Triton's
model repository extension); and, of one model, whether it is ready.
"""

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

import msgspec

from routing.contract.decode_errors import DECODE_ERRORS
from routing.contract.version import VERSION
from routing.protocols.open_inference import PREFIX
from routing.protocols.path_forms import path_of
from routing.protocols.request_info import BadRequestBody


class ServerQuery(Enum):
    """What a request asks."""

    LIVE = 1
    READY = 2
    METADATA = 3
    INDEX = 4
    MODEL_READY = 5


class ModelState(Enum):
    """Of a model in the index."""

    READY = "READY"
    LOADING = "LOADING"
    UNAVAILABLE = "UNAVAILABLE"


class IndexEntry(NamedTuple):
    """A model in the index. ``reason``: why it is in this state; empty if it is ready."""

    name: str
    state: ModelState
    reason: str


INDEX_PATH = b"/v2/repository/index"
_PATHS = {
    b"/v2/health/live": ServerQuery.LIVE,
    b"/v2/health/ready": ServerQuery.READY,
    b"/v2": ServerQuery.METADATA,
    INDEX_PATH: ServerQuery.INDEX,
}
_READ, _POSTED = (b"GET", b"HEAD"), (b"POST",)


class _IndexRequest(msgspec.Struct):
    ready: bool = False


_decode_index_request = msgspec.json.Decoder(_IndexRequest).decode


def server_query(target: bytes) -> ServerQuery | None:
    """What the path asks of the server; ``None``: it is no path of the server itself."""
    return _PATHS.get(path_of(target))


def asks_model_ready(target: bytes) -> bool:
    """Whether the path asks if a model is ready. Not of a version: a replica knows which there are."""
    path = path_of(target)
    name, _, last = path[len(PREFIX) :].rpartition(b"/")
    return path.startswith(PREFIX) and last == b"ready" and name != b"" and b"/" not in name


def methods_of(query: ServerQuery) -> tuple[bytes, ...]:
    """The methods with which it is asked."""
    return _POSTED if query is ServerQuery.INDEX else _READ


def wants_ready_only(body: bytes) -> bool:
    """Whether a request for the index is about models that are ready. Its body may be empty. Raises
    :class:`BadRequestBody`."""
    if not body:
        return False
    try:
        return _decode_index_request(body).ready
    except DECODE_ERRORS as error:
        raise BadRequestBody(f"not a request for the repository index: {error}") from None


def live_body() -> bytes:
    return msgspec.json.encode({"live": True})


def metadata_body() -> bytes:
    """Which extensions there are depends on the replicas, so none is promised."""
    return msgspec.json.encode({"name": "switchyard", "version": VERSION, "extensions": []})


def ready_body(model: str, why_not: str) -> bytes:
    """``model``: empty where the server was asked for. ``why_not``: empty where it is ready."""
    about: dict[str, object] = {"name": model} if model else {"live": True}
    about["ready"] = not why_not
    return msgspec.json.encode({**about, "error": why_not} if why_not else about)


def index_body(models: Iterable[IndexEntry]) -> bytes:
    """Versions are optional in it, and left out: replicas know them."""
    return msgspec.json.encode(
        [{"name": one.name, "state": one.state.value, "reason": one.reason} for one in models]
    )
