"""Exposure guard (authorization of paths): refuses a request whose path its fleet does not expose.

The usual request passes by one bit of its cached route, and does not come here. In a fleet without the
setting ``expose``, one from before it, nothing is refused, and what would be is counted.
"""

from __future__ import annotations

from routing.balancing.pool.exposed import Exposed
from routing.balancing.pool.pool import Pool
from routing.protocols.inference_paths import opened_by
from routing.protocols.path_forms import forms_of, path_of
from routing.proxy.errors import RoutingError
from routing.proxy.exchange import model_guard, report_only
from routing.proxy.exchange.route import RequestRoute
from routing.proxy.exchange.state import ExchangeState

_LONGEST_SHOWN = 200


def check(exchange: ExchangeState, pool: Pool) -> None:
    """Called before the request is counted, where :attr:`RequestRoute.opens` does not say enough. Raises
    :class:`RoutingError` where the fleet exposes the request's path or model to nobody."""
    route, exposed = exchange.head.route, pool.exposed
    assert isinstance(route, RequestRoute)
    try:
        if exposed.entered:
            _check_neighbours(route, exchange.head.method, pool)
        _check_path(route, exchange.head.method, pool)
        if exposed.models is not None:
            model_guard.check(exchange, pool, exposed.models)
    except RoutingError as refusal:
        if exposed.is_enforced:
            pool.counters.not_exposed += 1
            raise
        report_only.count(pool, refusal)


def objection(exchange: ExchangeState, pool: Pool) -> RoutingError | None:
    """Why the fleet, which has changed what it exposes, would now refuse the path of a request that it let
    in; ``None``: it would not."""
    route, exposed = exchange.head.route, pool.exposed
    assert isinstance(route, RequestRoute)
    if not exposed.is_enforced:
        return None
    try:
        if exposed.entered:
            _check_neighbours(route, exchange.head.method, pool)
        _check_path(route, exchange.head.method, pool)
    except RoutingError as error:
        words = f"fleet {pool.name!r} no longer exposes this path: {error.message}"
        return RoutingError(403, "path_not_exposed", words)
    return None


def _check_neighbours(route: RequestRoute, method: bytes, pool: Pool) -> None:
    """Another fleet's replicas, at the same host below a longer path prefix, are none of this fleet's."""
    path = path_of(route.target)
    if any(pool.exposed.leads_to_another(form) for form in forms_of(path) or ()):
        words = (
            f"{method.decode()} {_shown(path)} leads to replicas of another fleet, which fleet {pool.name!r} "
            f"does not expose ({_setting(pool.exposed)}): ask that fleet, or have the path itself listed in "
            "the fleet's expose"
        )
        raise RoutingError(403, "path_not_exposed", words)


def _check_path(route: RequestRoute, method: bytes, pool: Pool) -> None:
    exposed = pool.exposed
    if exposed.bit:
        if route.opens & exposed.bit:
            return
        forms = forms_of(path_of(route.target)) or ()
        opened = [opened_by(method, form or b"/") & exposed.bit for form in forms]
    else:
        forms = forms_of(path_of(route.target)) or ()
        opened = [exposed.lists(form) for form in forms]
        if opened and all(opened):
            return
    shown = _shown(path_of(route.target))
    if any(opened):
        words = (
            f"the path {shown} can be read in two ways, and fleet {pool.name!r} does not expose both "
            f"({_setting(exposed)}): send it without encoded slashes"
        )
        raise RoutingError(400, "ambiguous_path", words)
    words = (
        f"fleet {pool.name!r} does not expose {method.decode()} {shown} ({_setting(exposed)}): ask with a "
        "call of its API, or have the path listed in the fleet's expose"
    )
    raise RoutingError(403, "path_not_exposed", words)


def _shown(path: bytes) -> str:
    return path[:_LONGEST_SHOWN].decode("latin-1")


def _setting(exposed: Exposed) -> str:
    if isinstance(exposed.expose, list):
        return "expose lists paths"
    return f"expose: {exposed.expose or 'inference'}"
