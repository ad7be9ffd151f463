"""The Open Inference Protocol (KServe V2): ``/v2/models/{model}[/versions/{v}]/infer``.

Work is the number of tensor elements in the request.
"""

from math import prod
from urllib.parse import quote_from_bytes, unquote_to_bytes

import msgspec

from routing.protocols.ask import Ask

PREFIX = b"/v2/models/"
BYTES_PER_ELEMENT = 8.0
"""Of a JSON body whose shapes were not read."""
_MOST_ELEMENTS = 1e12


class _Tensor(msgspec.Struct):
    shape: list[int] = []


class _Body(msgspec.Struct):
    inputs: list[_Tensor] = []


_decode = msgspec.json.Decoder(_Body).decode


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


def read(body: bytes) -> Ask:
    """Never raises: what cannot be read as JSON (binary tensors) is estimated by its size."""
    try:
        elements = sum(prod(tensor.shape) for tensor in _decode(body).inputs)
    except msgspec.MsgspecError:
        elements = 0
    if 0 < elements < _MOST_ELEMENTS:
        return ("", False, float(elements))
    return ("", False, len(body) / BYTES_PER_ELEMENT)


def error_body(message: str) -> bytes:
    return msgspec.json.encode({"error": message})
