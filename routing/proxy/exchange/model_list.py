"""Model list, and OPTIONS addressed to the proxy: requests that the proxy itself answers."""

from collections.abc import Callable
from urllib.parse import unquote_to_bytes

from routing.balancing.pool.table import Table
from routing.http.local_response import response_bytes
from routing.http.request_head import RequestHead
from routing.protocols import anthropic, openai
from routing.protocols.errors import error_content
from routing.proxy.exchange.route_resolver import openai_names

_MODELS = b"/v1/models"
ALLOW = b"\r\nAllow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"


def model_list_reply(
    table: Table, head: RequestHead, fields: bytes, close: bool, may_use: Callable[[str], bool]
) -> bytes:
    """The whole answer to a request whose route says ``LOCAL``. ``fields``: each preceded by CRLF.
    ``may_use``: whether the caller may hear of the fleet of this name."""
    if head.method == b"OPTIONS":
        return response_bytes(200, "text/plain", b"", fields=ALLOW + fields, close=close)
    status, content_type, body = _models(table, head, may_use)
    return response_bytes(
        status, content_type, body, fields=fields, close=close, head_only=head.method == b"HEAD"
    )


def _models(table: Table, head: RequestHead, may_use: Callable[[str], bool]) -> tuple[int, str, bytes]:
    path = head.target.partition(b"?")[0]
    found = ((name, table.resolve(name)) for name in openai_names(table))
    names = [name for name, pool in found if pool is not None and may_use(pool.name)]
    name = unquote_to_bytes(path[len(_MODELS) + 1 :]).decode("utf-8", "replace")
    spoken = anthropic if anthropic.has_version_header(head.fields) else openai
    if not name:
        return 200, "application/json", spoken.model_list(names)
    if name in names:
        return 200, "application/json", spoken.model_object(name)
    protocol = "anthropic" if spoken is anthropic else "openai"
    return 404, *error_content(protocol, 404, "model_not_found", f"there is no model {name!r} here")
