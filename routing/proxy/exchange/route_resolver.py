"""Route resolver: finds the fleet of a request in the routing table, or the reason why there is none."""

from collections.abc import Callable

from routing.balancing.pool.pool import Pool
from routing.balancing.pool.table import Table
from routing.http.request_head import RequestHead
from routing.protocols import openai, openai_body
from routing.protocols.request_info import BadRequestBody, RequestInfo
from routing.proxy.errors import RoutingError
from routing.proxy.exchange.route import RequestRoute

DefaultFleet = Callable[[], Pool | None]
"""Gives the fleet for a request of this caller's that names none. Asked only where one does."""

_MOST_NAMES = 20
_NAME_IT_OUTSIDE = "name the fleet in the path (/fleets/{name}/v1/…) or in the field X-Switchyard-Fleet"


def resolve(table: Table, route: RequestRoute, default_of_caller: DefaultFleet) -> Pool:
    """The fleet for a route that needs no body. Raises :class:`RoutingError`."""
    if route.by_name:
        pool = table.resolve(route.name)
        if pool is None:
            raise _unknown(route.name)
        return pool
    default = default_of_caller()
    if default is None:
        words = "the request names no fleet, and there is no default fleet"
        raise RoutingError(404, "no_fleet_named", words, lists_fleets=True)
    return default


def read_body(head: RequestHead, body: bytes, default_of_caller: DefaultFleet) -> RequestInfo:
    """What a complete body says. Raises :class:`RoutingError`."""
    try:
        if body[:1] == b"{":
            return openai.read(head.target, body)
        return openai_body.read(head.target, head.fields, body)
    except BadRequestBody as error:
        if openai_body.is_encoded(head.fields):
            return _encoded(default_of_caller())
        raise RoutingError(400, "bad_body", str(error)) from None


def resolve_default(model: str, default: Pool | None) -> Pool:
    """The default fleet, for a body that names no model. Raises :class:`RoutingError`, also where the body
    does name a ``model``: no fleet bears that name."""
    if model:
        raise _unknown(model)
    if default is None:
        words = "the body names no model, and there is no default fleet"
        raise RoutingError(400, "model_missing", words, lists_fleets=True)
    return default


def too_large_to_search(peek_bytes: int, form: bool) -> RoutingError:
    """``form``: its beginning was searched, in vain."""
    words = f"a body of more than {peek_bytes} bytes is not searched for its model: {_NAME_IT_OUTSIDE}"
    if form:
        words = (
            f"the first {peek_bytes} bytes of the form do not hold its field model: put that before the "
            f"file, or {_NAME_IT_OUTSIDE}"
        )
    return RoutingError(413, "body_too_large_to_search", words)


def _encoded(default: Pool | None) -> RequestInfo:
    """An encoded body names no model; the default fleet may take it. Raises :class:`RoutingError`."""
    if default is not None:
        return ("", False, 0.0)
    words = f"an encoded body is not decoded to find its model: {_NAME_IT_OUTSIDE}"
    raise RoutingError(415, "encoded_body", words)


def _unknown(name: str) -> RoutingError:
    words = f"there is no fleet or alias named {name!r} here"
    return RoutingError(404, "model_not_found", words, lists_fleets=True)


def known_names(table: Table, may_use: Callable[[str], bool]) -> str:
    """Names, aliases and adapters of the fleets that the caller may use, in words."""
    names = _names_of(table, {name for name in table.fleets if may_use(name)})
    if not names:
        return "no fleet is known yet"
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"known: {', '.join(names[:_MOST_NAMES])}{more}"


def openai_names(table: Table) -> list[str]:
    """Names, aliases and adapters of all fleets that speak the OpenAI protocol."""
    return _names_of(table, {name for name, pool in table.fleets.items() if pool.protocol == "openai"})


def _names_of(table: Table, fleets: set[str]) -> list[str]:
    """What clients may call these fleets, and their adapters."""
    manifest = table.manifest
    others = (*manifest.aliases.items(), *manifest.adapters.items())
    return sorted(fleets | {name for name, fleet in others if fleet in fleets})
