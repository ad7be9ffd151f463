"""Requests that the proxy answers itself, before any fleet is looked for."""

from urllib.parse import unquote_to_bytes

from routing.http.answers import answer
from routing.http.request_head import RequestHead
from routing.protocols import openai
from routing.protocols.errors import error_answer
from routing.proxy.destination import openai_names
from routing.table import Table

_MODELS = b"/v1/models"
_ALLOW = b"\r\nAllow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"


def is_local(head: RequestHead) -> bool:
    """Whether :func:`local_answer` is to answer."""
    if head.method == b"OPTIONS":
        return head.target == b"*" or head.max_forwards == 0
    return (
        head.method in (b"GET", b"HEAD")
        and head.fleet is None
        and (head.target == _MODELS or head.target.startswith((_MODELS + b"/", _MODELS + b"?")))
    )


def local_answer(table: Table, head: RequestHead, fields: bytes, close: bool) -> bytes:
    """The whole answer to a request for which :func:`is_local` is true."""
    if head.method == b"OPTIONS":
        return answer(200, "text/plain", b"", fields=_ALLOW + fields, close=close)
    status, content_type, body = _models(table, head.target.partition(b"?")[0])
    return answer(status, content_type, body, fields=fields, close=close, head_only=head.method == b"HEAD")


def _models(table: Table, path: bytes) -> tuple[int, str, bytes]:
    names = openai_names(table)
    name = unquote_to_bytes(path[len(_MODELS) + 1 :]).decode("utf-8", "replace")
    if not name:
        return 200, "application/json", openai.model_list(names)
    if name in names:
        return 200, "application/json", openai.model_object(name)
    return 404, *error_answer("openai", 404, "model_not_found", f"there is no model {name!r} here")


def was_here(via: bytes, name: bytes) -> bool:
    """Whether one of the hops in a Via value is called ``name`` (RFC 9110 §7.6.3)."""
    return any(hop.split()[1:2] == [name] for hop in via.split(b","))
