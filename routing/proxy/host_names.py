"""Host names of replicas (DNS): looked up ahead where fleets may share a host by different names.

The table says which names there are, the resolver which addresses they have, and the table learns those.
Lookups run in the background, a few at a time, so that they hold up none that a connection waits for. Each
name is looked up once here, and again whenever connections use it.
"""

from routing.balancing.pool.table import Table
from routing.http.name_resolver import NameResolver, ResolvedName

MOST_AHEAD = 4


class HostNames:
    """Of one worker's table."""

    __slots__ = ("_asked", "_kept", "_names", "_pending", "_table")

    def __init__(self, names: NameResolver, table: Table) -> None:
        self._names = names
        self._table = table
        self._kept: dict[str, ResolvedName] = {}
        self._pending: dict[str, None] = {}
        """Names to be looked up, in turn."""
        self._asked: set[str] = set()
        """Those that are being looked up for this."""
        names.on_answer = self._answered
        table.on_hosts = self._follow
        self._follow()

    def _follow(self) -> None:
        wanted = self._table.host_names
        for host in [host for host in self._kept if host not in wanted]:
            del self._kept[host]
            self._pending.pop(host, None)
        for host in [host for host in wanted if host not in self._kept]:
            name = self._names.name(host)
            if name is not None:
                self._kept[host] = name
                if name.addresses:
                    self._table.host_found(host, name.addresses)
                else:
                    self._pending[host] = None
        self._go_on()

    def _answered(self, host: str, addresses: tuple[str, ...]) -> None:
        self._table.host_found(host, addresses)
        self._asked.discard(host)
        self._pending.pop(host, None)
        self._go_on()

    def _go_on(self) -> None:
        while self._pending and len(self._asked) < MOST_AHEAD:
            host = next(iter(self._pending))
            del self._pending[host]
            self._asked.add(host)
            self._kept[host].look_up_ahead()
