"""What exchanges need of the worker's proxy, which makes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from routing.pool.table import Table
from routing.proxy.client_keys import ClientKeys
from routing.proxy.keepers import Keepers
from routing.proxy.link import Link
from routing.proxy.plan import Plans
from routing.proxy.settings import ProxySettings
from routing.replica import Replica


class Host(Protocol):
    """Shared by all exchanges of one worker."""

    table: Table
    settings: ProxySettings
    via_name: bytes
    """Of this proxy, in ``Via``."""
    scheme: bytes
    """By which clients come, for X-Forwarded-Proto."""
    plans: Plans
    keys: ClientKeys
    """In force at this moment."""
    request_id: Callable[[], bytes]
    """Gives a new one with each call."""
    trace_parent: Callable[[], bytes]
    """Gives a new one with each call: the field that begins a trace, preceded by CRLF, or nothing."""
    where_keys_are_made: str
    """For whom is told that there is none yet, in words."""
    keepers: Keepers
    """Which replica keeps what it made."""
    rejected: int
    """Requests refused before any fleet was found."""
    draining: bool
    """Whether each client's connection is to be closed after its answer."""

    def link(self, replica: Replica) -> Link:
        """The HTTP side of a replica, made when it is first needed."""
        ...

    def peek(self, size: int) -> bool:
        """Take so many bytes out of the budget for bodies that are searched; negative: give back."""
        ...
