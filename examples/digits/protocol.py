"""The part of the Open Inference Protocol (V2) that ``digits`` speaks: one FP64 input, one INT64 output.

Source: KServe's "Open Inference Protocol", HTTP/REST.
"""

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

NUMERIC = {"FP64", "FP32", "FP16", "INT64", "INT32", "INT16", "INT8", "UINT8", "UINT16", "UINT32", "UINT64"}


class InferenceError(Exception):
    """``str()`` says what is wrong with a request; answered as 400."""


class Tensor(msgspec.Struct, kw_only=True):
    name: str
    shape: list[int]
    datatype: str
    data: list[Any]


class Request(msgspec.Struct, kw_only=True):
    inputs: list[Tensor]
    id: str | None = None


def rows(body: bytes, features: int) -> tuple[NDArray[np.float64], str | None]:
    """The rows ``(n, features)`` of a request and its id. Raises :class:`InferenceError`."""
    try:
        request = msgspec.json.decode(body, type=Request)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InferenceError(f"not an inference request: {error}") from None
    if len(request.inputs) != 1:
        raise InferenceError(f"exactly one input is expected, there are {len(request.inputs)}")
    tensor = request.inputs[0]
    if tensor.datatype not in NUMERIC:
        raise InferenceError(f"input {tensor.name!r}: datatype {tensor.datatype!r} is not a number type")
    if len(tensor.shape) != 2 or tensor.shape[1] != features or tensor.shape[0] < 1:
        raise InferenceError(f"input {tensor.name!r}: shape must be [rows, {features}], not {tensor.shape}")
    try:
        values = np.asarray(tensor.data, dtype=np.float64)
        return values.reshape(tensor.shape), request.id
    except (ValueError, TypeError):
        raise InferenceError(f"input {tensor.name!r}: data does not fill the shape {tensor.shape}") from None


def answer(model: str, version: str, digits: NDArray[Any], request_id: str | None) -> bytes:
    """The response for one digit per row."""
    response: dict[str, Any] = {"model_name": model, "model_version": version}
    if request_id is not None:
        response["id"] = request_id
    labels = [int(digit) for digit in digits]
    response["outputs"] = [{"name": "digit", "shape": [len(labels)], "datatype": "INT64", "data": labels}]
    return msgspec.json.encode(response)


def metadata(model: str, version: str, features: int) -> bytes:
    """What ``GET /v2/models/{model}`` answers."""
    return msgspec.json.encode(
        {
            "name": model,
            "versions": [version],
            "platform": "scikit-learn",
            "inputs": [{"name": "pixels", "datatype": "FP64", "shape": [-1, features]}],
            "outputs": [{"name": "digit", "datatype": "INT64", "shape": [-1]}],
        }
    )
