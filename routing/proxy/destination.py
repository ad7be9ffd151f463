"""Which fleet a request is for.

In this order: ``/fleets/{name}/…`` (the prefix is removed), the model in a V2 path, the
``X-Switchyard-Fleet`` field, the ``model`` of an OpenAI body, the default fleet. Whatever stands outside the
body comes first, so that such a request streams through without being read.
"""

from routing.http.request_head import RequestHead
from routing.pool import Pool
from routing.protocols import multipart, open_inference, openai
from routing.protocols.ask import Ask, BadAsk
from routing.protocols.errors import protocol_of_path
from routing.table import Table

_FLEETS = b"/fleets/"
_MOST_NAMES = 20


class Unroutable(Exception):
    """No fleet for this request; what to answer instead."""

    def __init__(self, protocol: str, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.protocol = protocol
        self.status = status
        self.code = code
        self.message = message


def find_outside_body(table: Table, head: RequestHead) -> Pool | None:
    """The fleet, or ``None`` when only the body can tell. May shorten or rename ``head.target``.

    Raises :class:`Unroutable`.
    """
    target = head.target
    if target.startswith(_FLEETS):
        return _named_in_path(table, head)
    if target.startswith(open_inference.PREFIX):
        model = open_inference.model_of(target)
        if model is not None:
            pool = _known(table, model, "open-inference")
            if model != (pool.served_model or pool.name):
                head.target = open_inference.with_model(target, pool.served_model or pool.name)
            return pool
    if head.fleet is not None:
        return _known(table, head.fleet.decode("utf-8", "replace"), protocol_of_path(target))
    if head.method == b"POST" and target.startswith(b"/v1/"):
        return None
    return _default(table, target)


def find_in_body(table: Table, head: RequestHead, body: bytes) -> tuple[Pool, Ask]:
    """The fleet that the complete body names, else the default. Raises :class:`Unroutable`."""
    ask = _ask(table, head, body)
    if not ask.model:
        if table.default is None:
            raise Unroutable(
                "openai", 400, "model_missing", "the body names no model, and there is no default fleet"
            )
        return table.default, ask
    return _known(table, ask.model, "openai"), ask


def _ask(table: Table, head: RequestHead, body: bytes) -> Ask:
    if body[:1] != b"{":
        boundary = multipart.boundary_of(head.fields)
        if boundary is not None:
            return Ask(multipart.model_of(body, boundary), False, 0.0)
        if b"\r\ncontent-encoding:" in head.fields.lower():
            if table.default is not None:
                return Ask("", False, 0.0)
            words = (
                "an encoded body is not decoded to find its model: name the fleet in the path "
                "(/fleets/{name}/v1/…) or in the field X-Switchyard-Fleet"
            )
            raise Unroutable("openai", 415, "encoded_body", words)
    try:
        return openai.read(head.target, body)
    except BadAsk as error:
        raise Unroutable("openai", 400, "bad_body", str(error)) from None


def _named_in_path(table: Table, head: RequestHead) -> Pool:
    rest = head.target[len(_FLEETS) :]
    cut = min((at for at in (rest.find(b"/"), rest.find(b"?")) if at >= 0), default=len(rest))
    target = rest[cut:]
    head.target = target if target.startswith(b"/") else b"/" + target
    return _known(table, rest[:cut].decode(), protocol_of_path(head.target))


def _known(table: Table, name: str, protocol: str) -> Pool:
    pool = table.resolve(name)
    if pool is None:
        words = f"there is no fleet or alias named {name!r} here; {_known_names(table)}"
        raise Unroutable(protocol, 404, "model_not_found", words)
    return pool


def _default(table: Table, target: bytes) -> Pool:
    if table.default is None:
        words = f"the request names no fleet, and there is no default fleet; {_known_names(table)}"
        raise Unroutable(protocol_of_path(target), 404, "no_fleet_named", words)
    return table.default


def _known_names(table: Table) -> str:
    names = sorted({*table.fleets, *table.manifest.aliases})
    if not names:
        return "no fleet is known yet"
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"known: {', '.join(names[:_MOST_NAMES])}{more}"


def openai_names(table: Table) -> list[str]:
    """Names and aliases of all fleets that speak the OpenAI protocol."""
    names = {name for name, pool in table.fleets.items() if pool.protocol == "openai"}
    aliases = {alias for alias, name in table.manifest.aliases.items() if name in names}
    return sorted(names | aliases)
