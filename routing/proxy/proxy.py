"""One worker's proxy: accepts client connections and keeps what all exchanges share."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from functools import partial
from itertools import repeat
from time import monotonic

from routing.http.answers import answer
from routing.http.client import ClientConnection
from routing.http.errors import RequestRefused
from routing.http.hangup import HangupWatch
from routing.http.limits import BodyLimits
from routing.http.request_head import RequestHead
from routing.http.request_ids import request_ids
from routing.http.roles import Client, Connection, OpenClient
from routing.http.sweep import Sweeper
from routing.http.tls_layer import TlsLayer
from routing.http.trace_context import ALL, trace_parents
from routing.http.upstream_pool import UpstreamPool
from routing.http.verified import Verification
from routing.http.write_batch import WriteBatch
from routing.pool.table import Table
from routing.processes.access_log import AccessLine, AccessLog, now
from routing.protocols.errors import error_answer
from routing.proxy import told_load
from routing.proxy.client_keys import ClientKeys
from routing.proxy.connection_limit import REFUSAL, ConnectionLimit
from routing.proxy.credential_watch import CredentialWatch
from routing.proxy.exchange import Exchange
from routing.proxy.forwarded import request_fields
from routing.proxy.guarded import GuardedExchange
from routing.proxy.keepers import Keepers
from routing.proxy.link import Link
from routing.proxy.local_answers import ALLOW
from routing.proxy.logged_exchange import LoggedExchange, LoggedGuardedExchange
from routing.proxy.plan import Plans
from routing.proxy.request_limits import before_the_fleet
from routing.proxy.settings import ProxySettings
from routing.proxy.waiting_room import WaitingRoom
from routing.replica import Replica
from routing.shared.key_uses import KeyUses
from routing.tls.contexts import Contexts


class Proxy:
    """Construct it inside a running event loop; :meth:`connection` is the protocol factory of a server."""

    def __init__(self, table: Table, settings: ProxySettings | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self.table = table
        self.settings = settings = settings or ProxySettings()
        self.limits = settings.limits
        self.via_name = settings.name.encode()
        self.sweeper = Sweeper(self._loop)
        self.hangups = HangupWatch(self._loop)
        self.writes = WriteBatch(self._loop)
        self.waiting_room = WaitingRoom(self._loop)
        table.called_by(self.waiting_room)
        self._contexts = Contexts()
        self.request_id = request_ids().__next__
        """Gives a new one with each call."""
        self.trace_parent: Callable[[], bytes]
        """Gives a new one with each call: the field that begins a trace, preceded by CRLF, or nothing."""
        self.begin_traces(ALL)
        self.keepers = Keepers()
        """Which replica keeps what it made."""
        self.key_uses = KeyUses(table.shared, table.host_share)
        self.keys: ClientKeys
        """In force at this moment."""
        self.exchange: Callable[[Client, RequestHead], Exchange]
        """Made for each request head; part of what client connections need."""
        self._keys_required = False
        self.where_keys_are_made = ""
        self._access_log: AccessLog | None = None
        self._follow_keys()
        table.on_manifest = self._follow_manifest
        self._credentials = CredentialWatch(self._loop, table)
        table.on_snapshot = self._credentials.follow
        self.rejected = 0
        """Requests refused before any fleet was found: malformed, unknown model, too large."""
        self.draining = False
        self._clients: set[Client] = set()
        self.connection_limit = ConnectionLimit()
        self._tls: ssl.SSLContext | None = None
        self.scheme = b"http"
        """By which clients come, for X-Forwarded-Proto."""
        self.handshakes: set[object] = set()
        """Of TLS, under way."""
        self.plans = Plans(self.via_name, table.matches)
        self.searched_bytes = 0
        """Bytes of bodies that are being read to find the model in them."""

    @property
    def refusal_unread(self) -> bytes:
        """What a connection is told for which there is no place, before anything of it is read."""
        return REFUSAL if self._tls is None else b""

    @property
    def clients(self) -> int:
        """Open client connections."""
        return len(self._clients)

    @property
    def upstreams(self) -> int:
        """Open connections to replicas."""
        return sum(len(pool.open) for pool in self.sweeper.members if isinstance(pool, UpstreamPool))

    def connection(self) -> asyncio.Protocol:
        """A protocol for one new client connection."""
        if self._tls is not None:
            return TlsLayer(self._tls, ClientConnection(self), self)
        return ClientConnection(self)

    def speak_tls(self, context: ssl.SSLContext) -> None:
        """From now on new connections speak TLS by this context; open ones go on as they are."""
        self._tls = context
        self.scheme = b"https"

    def require_keys(self, where_they_are_made: str) -> None:
        """From now on no request is served without a client key, even while none exists; the words tell
        whoever asks how to come by one."""
        self._keys_required = True
        self.where_keys_are_made = where_they_are_made
        self._follow_keys()

    def _follow_manifest(self) -> None:
        self._follow_keys()
        matches = self.table.matches
        if matches is not self.plans.matches:
            self.plans = Plans(self.via_name, matches)
            for client in self._clients:
                client.forget_heads()

    def _follow_keys(self) -> None:
        """After each manifest. Requests that are being served go on as they were let in."""
        self.keys = ClientKeys(self.table.manifest, self.key_uses)
        guarded = self._keys_required or bool(self.keys)
        if self._access_log is None:
            self.exchange = partial(GuardedExchange if guarded else Exchange, self)
        else:
            kind = LoggedGuardedExchange if guarded else LoggedExchange
            self.exchange = partial(kind, self, self._access_log)

    def log_to(self, access_log: AccessLog) -> None:
        """From now on every request leaves a line there."""
        self._access_log = access_log
        self._follow_keys()

    def begin_traces(self, sample_percent: float | None) -> None:
        """For clients that begin none: how many of them ask to be recorded; ``None``: begin none."""
        parents = repeat(b"") if sample_percent is None else trace_parents(sample_percent)
        self.trace_parent = parents.__next__

    def drain(self) -> None:
        """From now on every answer says that it is the connection's last."""
        self.draining = True

    def leave(self, quiet_s: float) -> bool:
        """To be called again and again once no connection is accepted any more: close those of which nothing
        has come for so long; whether anything is left to wait for."""
        now = monotonic()
        left = [client.leave(now, quiet_s) for client in list(self._clients)]
        return any(left) or not self.idle()

    def idle(self) -> bool:
        """Whether no request is in flight and no answer waits to be taken."""
        return not (self.writes or self.handshakes or any(client.busy for client in self._clients))

    # What client connections need (routing.http.client.ClientHost).

    @property
    def head_timeout_s(self) -> float:
        return self.table.bounds.head_s

    @property
    def body_limits(self) -> BodyLimits:
        return before_the_fleet(self.table)

    def opened(self, client: OpenClient) -> None:
        self._clients.add(client)
        client.tag = request_fields(client.peer, self.scheme, self.via_name)
        self.connection_limit.came(client)

    def closed(self, client: OpenClient) -> None:
        self._clients.discard(client)
        self.connection_limit.gone(client)

    def arrived(self, connection: Connection) -> None:
        self.connection_limit.came(connection)

    def passed(self, connection: Connection) -> None:
        self.connection_limit.passed(connection)

    def lost(self, connection: Connection) -> None:
        self.connection_limit.gone(connection)

    def refusal(self, error: RequestRefused, head_only: bool) -> bytes:
        self.rejected += 1
        if self._access_log is not None:
            line = AccessLine(time=now(), status=error.status, outcome="refused", code=error.code)
            self._access_log.add(line)
        content_type, body = error_answer("generic", error.status, error.code, error.message)
        allow = ALLOW if error.status == 405 else b""
        return answer(error.status, content_type, body, fields=allow, close=True, head_only=head_only)

    # What exchanges need.

    def link(self, replica: Replica) -> Link:
        """The HTTP side of a replica, made when it is first needed."""
        link = replica.http
        if link is None:
            settings, tls = self.settings, replica.tls
            pool = UpstreamPool(
                self._loop,
                self.sweeper,
                self.writes,
                replica.host,
                replica.port,
                replica.authority,
                max_idle=settings.idle_connections,
                max_idle_s=settings.idle_connection_s,
                verification=None if tls is None else Verification(self._contexts, tls, replica.host),
                give_back=self.give_back_idle,
                load_told=told_load.listener(replica),
            )
            replica.http = link = Link(replica, pool, settings.name)
            link.ask_load(replica.asks_load)
            if replica.spec.credential:
                self._credentials.equip(replica)
        assert isinstance(link, Link)
        return link

    def give_back_idle(self) -> bool:
        """Close idle connections to replicas, because descriptors run short; whether there were any."""
        pools = [pool for pool in self.sweeper.members if isinstance(pool, UpstreamPool) and pool.idle]
        for pool in pools:
            pool.give_back()
        return bool(pools)

    def peek(self, size: int) -> bool:
        """Take so many bytes out of the budget for bodies that are searched; negative: give back."""
        if size > 0 and self.searched_bytes + size > self.settings.peek_budget_bytes:
            return False
        self.searched_bytes += size
        return True
