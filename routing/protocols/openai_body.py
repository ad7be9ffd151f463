"""Request bodies of the OpenAI API: a JSON object, or a form where a file goes along (audio, images).

:mod:`routing.protocols.openai` reads the object, :mod:`routing.protocols.multipart` the form. An encoded body
(gzip …) is neither: it is not decoded here.
"""

import re

from routing.protocols import multipart, openai
from routing.protocols.request_info import BadRequestBody, RequestInfo

_ENCODED = re.compile(rb"\r\ncontent-encoding:[ \t]*+(?!identity[ \t]*+(?:\r|\Z))", re.I)
_BLANKS = b" \t\r\n"


def is_encoded(fields: bytes) -> bool:
    """``fields``: of a head, each preceded by CRLF."""
    return _ENCODED.search(fields) is not None


def boundary_of(fields: bytes) -> bytes | None:
    """Of a form that can be read; ``None``: the body is something else."""
    return None if is_encoded(fields) else multipart.boundary_of(fields)


def read(target: bytes, fields: bytes, body: bytes) -> RequestInfo:
    """What a complete body says. Raises :class:`BadRequestBody`, for an encoded one as well."""
    if is_encoded(fields):
        raise BadRequestBody("the body is encoded")
    boundary = multipart.boundary_of(fields)
    if boundary is None:
        return openai.read(target, body)
    model, stream = multipart.read(body, boundary)
    return (model, stream, len(body) / multipart.BYTES_PER_TOKEN)


def with_model(fields: bytes, body: bytes, model: str) -> bytes:
    """The same body, one that was read, under another model's name. Raises :class:`BadRequestBody`."""
    boundary = multipart.boundary_of(fields)
    return openai.with_model(body, model) if boundary is None else multipart.with_model(body, boundary, model)


def may_name_a_model(fields: bytes, beginning: bytes) -> bool:
    """Whether the body that begins so may say ``model``."""
    return beginning.lstrip(_BLANKS)[:1] in (b"", b"{") or boundary_of(fields) is not None


def work_by_size(fields: bytes, size: int) -> float:
    """Of a body of which only the length is known."""
    return 0.0 if boundary_of(fields) is None else size / multipart.BYTES_PER_TOKEN
