"""The Open Inference Protocol (KServe V2): ``/v2/models/{model}[/versions/{v}]/infer``.

Work is the number of tensor elements in the request, which the shapes tell. With the binary extension the
body is a JSON object, as long as ``Inference-Header-Content-Length`` says, with the tensors' bytes behind it:
only the object is read. Of Triton's generate extension (``…/generate``, ``…/generate_stream``) work is
counted in tokens, as of the OpenAI API.

Nothing here refuses a request: what cannot be read is estimated by its size, and the replica says what is
wrong. What is asked of a server itself is in :mod:`routing.protocols.open_inference_server`.
"""

import re
from math import prod
from typing import Annotated
from urllib.parse import quote_from_bytes, unquote_to_bytes

import msgspec

from routing.contract.decode_errors import DECODE_ERRORS
from routing.protocols.openai import BYTES_PER_TOKEN, MOST_TOKENS
from routing.protocols.request_info import RequestInfo

PREFIX = b"/v2/models/"
BYTES_PER_ELEMENT = 8.0
"""Of a JSON body whose shapes were not read."""
BYTES_PER_BINARY_ELEMENT = 4.0
"""Of binary tensors whose shapes were not read: FP32."""

_MOST_ELEMENTS = 10**12
_MOST_DIMENSIONS = 32
"""A longer shape is not multiplied: the time that takes grows with the square of its length."""
_JSON_LENGTH = re.compile(rb"\r\ninference-header-content-length:[ \t]*+([0-9]{1,18})[ \t]*+(?=\r|\Z)", re.I)
_GENERATES = (b"/generate", b"/generate_stream")


class _Tensor(msgspec.Struct):
    shape: list[Annotated[int, msgspec.Meta(ge=0, le=_MOST_ELEMENTS)]] = []
    """Dimensions of thousands of digits would take seconds to multiply."""


class _InferRequest(msgspec.Struct):
    inputs: list[_Tensor] = []


class _GenerateParameters(msgspec.Struct):
    max_tokens: int | None = None


class _GenerateRequest(msgspec.Struct):
    """Of the generate extension; ``max_tokens`` is where vLLM's and TensorRT-LLM's backends read it."""

    max_tokens: int | None = None
    parameters: _GenerateParameters | None = None


_decode_infer = msgspec.json.Decoder(_InferRequest).decode
_decode_generate = msgspec.json.Decoder(_GenerateRequest).decode


def model_of(target: bytes) -> str | None:
    """The model that the path names, or ``None`` when it names none."""
    if not target.startswith(PREFIX):
        return None
    name = target[len(PREFIX) :].partition(b"?")[0].partition(b"/")[0]
    if not name:
        return None
    return (unquote_to_bytes(name) if b"%" in name else name).decode("utf-8", "replace")


def with_model(target: bytes, model: str) -> bytes:
    """The same path under another model's name."""
    path, question, query = target.partition(b"?")
    _, slash, rest = path[len(PREFIX) :].partition(b"/")
    return PREFIX + quote_from_bytes(model.encode(), safe="").encode() + slash + rest + question + query


def read(target: bytes, fields: bytes, body: bytes, size: int) -> RequestInfo:
    """Never raises. ``fields``: each preceded by CRLF. ``body``: what is here of ``size`` bytes."""
    elements = 0
    if len(body) == size:
        try:
            elements = _elements(body)
        except DECODE_ERRORS:
            elements = _elements_before_binary(fields, body)
    else:
        elements = _elements_before_binary(fields, body)
    if 0 < elements < _MOST_ELEMENTS:
        return ("", False, float(elements))
    path = target.partition(b"?")[0]
    if path.endswith(_GENERATES):
        return ("", path.endswith(_GENERATES[1]), _tokens(body, size))
    binary = _JSON_LENGTH.search(fields) is not None
    return ("", False, size / (BYTES_PER_BINARY_ELEMENT if binary else BYTES_PER_ELEMENT))


def _elements(json: bytes | memoryview) -> int:
    """Raises msgspec.MsgspecError. 0: the shapes do not tell."""
    total = 0
    for tensor in _decode_infer(json).inputs:
        if len(tensor.shape) > _MOST_DIMENSIONS:
            return 0
        total += prod(tensor.shape)
        if total > _MOST_ELEMENTS:
            return 0
    return total


def _elements_before_binary(fields: bytes, body: bytes) -> int:
    """As the JSON object says that stands before binary tensors; 0: it does not, or is not all here."""
    said = _JSON_LENGTH.search(fields)
    if said is None:
        return 0
    try:
        return _elements(memoryview(body)[: int(said[1])])
    except DECODE_ERRORS:
        return 0


def _tokens(body: bytes, size: int) -> float:
    """Of the prompt and what may be generated; of the prompt, below 0, where the request sets no limit."""
    try:
        prompt = _decode_generate(body)
    except DECODE_ERRORS:
        return 0.0
    limit = (prompt.parameters and prompt.parameters.max_tokens) or prompt.max_tokens or 0
    return size / BYTES_PER_TOKEN + limit if 0 < limit <= MOST_TOKENS else -size / BYTES_PER_TOKEN


def error_body(message: str) -> bytes:
    return msgspec.json.encode({"error": message})
