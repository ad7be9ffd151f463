"""The part of the Open Inference Protocol (V2) that ``digits`` speaks: a numeric input, an INT64 output.

Tensors are JSON, or binary behind the JSON object, as Triton's client sends and wants them by default.
Sources: KServe's "Open Inference Protocol", HTTP/REST, and its "Binary Tensor Data Extension".
"""

from math import prod
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

DTYPES = {
    **{f"FP{bits}": f"<f{bits // 8}" for bits in (16, 32, 64)},
    **{f"INT{bits}": f"<i{bits // 8}" for bits in (8, 16, 32, 64)},
    **{f"UINT{bits}": f"<u{bits // 8}" for bits in (8, 16, 32, 64)},
}
"""Datatype → that of numpy for its binary form: little-endian, row by row."""
INPUT, OUTPUT = "pixels", "digit"


class InferenceError(Exception):
    """``str()`` says what is wrong with a request; answered as 400."""


class InputParameters(msgspec.Struct, frozen=True, kw_only=True):
    binary_data_size: int | None = None


class Tensor(msgspec.Struct, kw_only=True):
    name: str
    shape: list[int]
    datatype: str
    data: list[Any] | None = None
    parameters: InputParameters = InputParameters()


class OutputParameters(msgspec.Struct, frozen=True, kw_only=True):
    binary_data: bool | None = None


class RequestedOutput(msgspec.Struct, kw_only=True):
    name: str
    parameters: OutputParameters = OutputParameters()


class RequestParameters(msgspec.Struct, frozen=True, kw_only=True):
    binary_data_output: bool = False


class Request(msgspec.Struct, kw_only=True):
    inputs: list[Tensor]
    id: str | None = None
    outputs: list[RequestedOutput] = []
    parameters: RequestParameters = RequestParameters()


class Inference(NamedTuple):
    """What is asked."""

    rows: NDArray[np.float64]
    """``(n, features)``."""
    request_id: str | None
    binary_output: bool


class Answer(NamedTuple):
    body: bytes
    json_length: int | None
    """Bytes of the JSON object, if binary tensors follow it."""


def read(body: bytes, json_length: str | None, features: int) -> Inference:
    """Read a request for inference. ``json_length``: its ``Inference-Header-Content-Length``. Raises
    :class:`InferenceError`."""
    length = _length(json_length, len(body))
    try:
        request = msgspec.json.decode(memoryview(body)[:length], type=Request)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InferenceError(f"not an inference request: {error}") from None
    if len(request.inputs) != 1:
        raise InferenceError(f"exactly one input is expected, there are {len(request.inputs)}")
    tensor = request.inputs[0]
    if tensor.datatype not in DTYPES:
        raise InferenceError(f"input {tensor.name!r}: datatype {tensor.datatype!r} is not a number type")
    if len(tensor.shape) != 2 or tensor.shape[1] != features or tensor.shape[0] < 1:
        raise InferenceError(f"input {tensor.name!r}: shape must be [rows, {features}], not {tensor.shape}")
    return Inference(_values(tensor, body[length:]), request.id, _is_binary_output(request))


def _length(said: str | None, size: int) -> int:
    if said is None:
        return size
    if not said.isdecimal() or int(said) > size:
        raise InferenceError(f"Inference-Header-Content-Length: {said!r} is no length within the body")
    return int(said)


def _values(tensor: Tensor, binary: bytes) -> NDArray[np.float64]:
    """The tensor's numbers, from JSON or from what stands behind the JSON object."""
    size = tensor.parameters.binary_data_size
    if size is None and tensor.data is not None and not binary:
        try:
            return np.asarray(tensor.data, dtype=np.float64).reshape(tensor.shape)
        except (ValueError, TypeError, OverflowError):
            words = f"data does not fill the shape {tensor.shape}"
            raise InferenceError(f"input {tensor.name!r}: {words}") from None
    dtype = np.dtype(DTYPES[tensor.datatype])
    expected = prod(tensor.shape) * dtype.itemsize
    if tensor.data is not None or size != expected or len(binary) != expected:
        words = f"either data or {expected} bytes of binary data, said in binary_data_size, are expected"
        raise InferenceError(f"input {tensor.name!r}: {words}")
    return np.frombuffer(binary, dtype).astype(np.float64).reshape(tensor.shape)


def _is_binary_output(request: Request) -> bool:
    """Whether the output is wanted in binary form: what is said of it goes before what is said of all."""
    binary = request.parameters.binary_data_output
    for output in request.outputs:
        if output.name != OUTPUT:
            raise InferenceError(f"there is no output {output.name!r}, only {OUTPUT!r}")
        if output.parameters.binary_data is not None:
            binary = output.parameters.binary_data
    return binary


def answer(model: str, version: str, digits: NDArray[Any], asked: Inference) -> Answer:
    """The response for one digit per row."""
    response: dict[str, Any] = {"model_name": model, "model_version": version}
    if asked.request_id is not None:
        response["id"] = asked.request_id
    output: dict[str, Any] = {"name": OUTPUT, "shape": [len(digits)], "datatype": "INT64"}
    response["outputs"] = [output]
    if not asked.binary_output:
        output["data"] = [int(digit) for digit in digits]
        return Answer(msgspec.json.encode(response), None)
    binary = digits.astype(DTYPES["INT64"]).tobytes()
    output["parameters"] = {"binary_data_size": len(binary)}
    encoded = msgspec.json.encode(response)
    return Answer(encoded + binary, len(encoded))


def metadata(model: str, version: str, features: int) -> bytes:
    """What ``GET /v2/models/{model}`` answers."""
    return msgspec.json.encode(
        {
            "name": model,
            "versions": [version],
            "platform": "scikit-learn",
            "inputs": [{"name": INPUT, "datatype": "FP64", "shape": [-1, features]}],
            "outputs": [{"name": OUTPUT, "datatype": "INT64", "shape": [-1]}],
        }
    )
