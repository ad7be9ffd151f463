"""Exchange context: what exchanges need of the proxy of their worker, which makes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from routing.balancing.pool.table import Table
from routing.balancing.replica.state import Replica
from routing.proxy.auth.client_keys import ClientKeys
from routing.proxy.exchange.route import RouteCache
from routing.proxy.exchange.sticky_registry import StickyRegistry
from routing.proxy.settings import ProxySettings
from routing.proxy.upstream_endpoint import UpstreamEndpoint


class ExchangeContext(Protocol):
    """Shared by all exchanges of one worker: the proxy, which makes them and so lies above this package."""

    table: Table
    settings: ProxySettings
    via_name: bytes
    """Of this proxy, in ``Via``."""
    scheme: bytes
    """By which clients come, for X-Forwarded-Proto."""
    routes: RouteCache
    keys: ClientKeys
    """In force at this moment."""
    new_request_id: Callable[[], bytes]
    """Gives a new one with each call."""
    new_trace_parent: Callable[[], bytes]
    """Gives a new one with each call: the field that begins a trace, preceded by CRLF, or nothing."""
    where_keys_are_made: str
    """The message for requests while there is none yet."""
    sticky_registry: StickyRegistry
    """Which replica keeps what it made."""
    rejected: int
    """Requests rejected before any fleet was found."""
    draining: bool
    """Whether each client's connection is to be closed after its answer."""

    def endpoint(self, replica: Replica) -> UpstreamEndpoint:
        """The HTTP side of a replica, made when it is first needed."""
        ...

    def reserve_peek(self, size: int) -> bool:
        """Take so many bytes out of the budget for bodies that are searched; negative: give back."""
        ...
