"""Exchange context: what exchanges need of the proxy of their worker, which makes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from routing.balancing.pool.table import Table
from routing.balancing.replica.state import Replica
from routing.proxy.auth.client_keys import ClientKeys
from routing.proxy.auth.key_guesses import KeyGuesses
from routing.proxy.auth.rechecks import Rechecks
from routing.proxy.connect_check import ConnectChecks
from routing.proxy.exchange.route import RouteCache
from routing.proxy.exchange.sticky_registry import StickyRegistry
from routing.proxy.limits.body_budget import BodyBudget
from routing.proxy.limits.connection_limit import ConnectionLimit
from routing.proxy.limits.unread_responses import UnreadResponses
from routing.proxy.settings import ProxySettings
from routing.proxy.upstream_endpoint import UpstreamEndpoint


class ExchangeContext(Protocol):
    """Shared by all exchanges of one worker. The proxy, which lies above this package, implements it."""

    table: Table
    settings: ProxySettings
    via_name: bytes
    """This proxy's name in ``Via``."""
    scheme: bytes
    """The scheme of clients' requests, for X-Forwarded-Proto."""
    routes: RouteCache
    keys: ClientKeys
    """The client keys of the present manifest."""
    key_guesses: KeyGuesses
    """How many unknown keys have come."""
    rechecks: Rechecks
    """Of requests in flight, where what callers may do has changed."""
    keys_optional: bool
    """Whether requests without a known key are served."""
    new_request_id: Callable[[], bytes]
    """Returns a new id with each call."""
    new_trace_parent: Callable[[], bytes]
    """Returns a new ``traceparent`` field with each call, preceded by CRLF; or nothing."""
    where_keys_are_made: str
    """How to make a key: for the 401 while there is none."""
    sticky_registry: StickyRegistry
    """Which replica stores which response."""
    connect_checks: ConnectChecks
    """Whether replicas that cannot be reached listen."""
    rejected: int
    """Requests rejected before any fleet was found."""
    draining: bool
    """Whether each client's connection is to be closed after its response."""
    connection_limit: ConnectionLimit
    bodies: BodyBudget
    """The memory for request bodies."""
    unread: UnreadResponses
    """The memory for responses that clients do not take."""

    def endpoint(self, replica: Replica) -> UpstreamEndpoint:
        """The HTTP side of a replica, made when it is first needed."""
        ...
