"""Model list (``/v1/models``): the names that clients may use; OPTIONS addressed to the proxy itself."""

from collections.abc import Callable
from urllib.parse import unquote_to_bytes

from routing.balancing.pool.pool import Pool
from routing.balancing.pool.table import Table
from routing.http.local_response import response_bytes
from routing.http.request_head import RequestHead
from routing.protocols import anthropic, openai
from routing.protocols.errors import error_content

_MODELS = b"/v1/models"
_MOST_NAMES = 20
ALLOW = b"\r\nAllow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"


def model_list_reply(
    table: Table, head: RequestHead, fields: bytes, close: bool, may_use: Callable[[str], bool]
) -> bytes:
    """The whole response to a request whose route says ``LOCAL``. ``fields``: each preceded by CRLF.
    ``may_use``: whether the caller may use, and see, the fleet of this name."""
    if head.method == b"OPTIONS":
        return response_bytes(200, "text/plain", b"", fields=ALLOW + fields, close=close)
    status, content_type, body = _models(table, head, may_use)
    return response_bytes(
        status, content_type, body, fields=fields, close=close, head_only=head.method == b"HEAD"
    )


def usable_models(table: Table, protocol: str, may_use: Callable[[str], bool]) -> list[tuple[str, Pool]]:
    """Names, aliases and adapters of the fleets with this protocol that the caller may use, in their order,
    each with its fleet."""
    fleets = {name for name, pool in table.fleets.items() if pool.protocol == protocol and may_use(name)}
    found = ((name, table.by_name.get(name)) for name in _names_of(table, fleets))
    return [(name, pool) for name, pool in found if pool is not None and may_use(pool.name)]


def _models(table: Table, head: RequestHead, may_use: Callable[[str], bool]) -> tuple[int, str, bytes]:
    path = head.target.partition(b"?")[0]
    names = [name for name, _ in usable_models(table, "openai", may_use)]
    name = unquote_to_bytes(path[len(_MODELS) + 1 :]).decode("utf-8", "replace")
    spoken = anthropic if anthropic.has_version_header(head.fields) else openai
    if not name:
        return 200, "application/json", spoken.model_list(names)
    if name in names:
        return 200, "application/json", spoken.model_object(name)
    protocol = "anthropic" if spoken is anthropic else "openai"
    return 404, *error_content(protocol, 404, "model_not_found", f"there is no model {name!r} here")


def known_names(table: Table, may_use: Callable[[str], bool]) -> str:
    """Names, aliases and adapters of the fleets that the caller may use, in words."""
    names = _names_of(table, {name for name in table.fleets if may_use(name)})
    if not names:
        return "no fleet is known yet"
    return f"known: {shortened(names)}"


def shortened(names: list[str]) -> str:
    """The names in words: at most so many, and how many more there are."""
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"{', '.join(names[:_MOST_NAMES])}{more}"


def _names_of(table: Table, fleets: set[str]) -> list[str]:
    """The names, aliases and adapters of these fleets."""
    manifest = table.manifest
    others = (*manifest.aliases.items(), *manifest.adapters.items())
    return sorted(fleets | {name for name, fleet in others if fleet in fleets})
