"""The ``model`` field of a ``multipart/form-data`` body (audio and image calls of the OpenAI API)."""

import re

_BOUNDARY = re.compile(
    rb"\r\ncontent-type:[ \t]*+multipart/form-data[^\r]*?;[ \t]*+"
    rb'boundary=(?:"([^"\r]{1,70})"|([^\s;"]{1,70}))',
    re.I,
)
_MODEL_PART = re.compile(
    rb'(?:\A|\r\n)content-disposition:[ \t]*+form-data[ \t]*+;[ \t]*+name="?model"?[ \t]*+(?:\r\n|\Z)', re.I
)


def boundary_of(fields: bytes) -> bytes | None:
    """The boundary in the Content-Type among ``fields`` (each preceded by CRLF), or ``None``."""
    matched = _BOUNDARY.search(fields)
    return None if matched is None else matched[1] or matched[2]


def model_of(body: bytes, boundary: bytes) -> str:
    """The value of the form field ``model``; empty when there is none."""
    for part in (b"\r\n" + body).split(b"\r\n--" + boundary)[1:]:
        head, separator, value = part.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        if separator and _MODEL_PART.search(head):
            return value.decode("utf-8", "replace").strip()
    return ""
