"""Requests that the proxy answers itself: the list of models, and OPTIONS addressed to it."""

from urllib.parse import unquote_to_bytes

from routing.http.answers import answer
from routing.http.request_head import RequestHead
from routing.protocols import openai
from routing.protocols.errors import error_answer
from routing.proxy.destination import openai_names
from routing.table import Table

_MODELS = b"/v1/models"
_ALLOW = b"\r\nAllow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"


def local_answer(table: Table, head: RequestHead, fields: bytes, close: bool) -> bytes:
    """The whole answer to a request whose plan says ``LOCAL``. ``fields``: each preceded by CRLF."""
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
