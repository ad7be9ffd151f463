"""Reverse proxy of one worker: makes client connections and exchanges, and keeps what all of them share."""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import repeat
from time import monotonic

from msgspec.structs import replace

from routing.balancing.pool.pool import Pool
from routing.balancing.pool.table import Table
from routing.balancing.replica.state import Replica
from routing.contract.body_settings import BodySettings
from routing.contract.trusted_proxies import TrustedProxies, client_group
from routing.http.client_connection import ClientConnection
from routing.http.disconnect_watcher import DisconnectWatcher
from routing.http.errors import RequestRefused
from routing.http.held_heads import HeldHeads
from routing.http.interfaces import Client, Connection
from routing.http.known_heads import KnownHeads
from routing.http.limits import BodyLimits
from routing.http.local_response import response_bytes
from routing.http.name_resolver import NameResolver
from routing.http.proxy_protocol import ProxyProtocolLayer
from routing.http.read_turns import ReadTurns
from routing.http.request_head import RequestHead
from routing.http.request_ids import request_ids
from routing.http.timeout_sweeper import TimeoutSweeper
from routing.http.tls_connect import Verification
from routing.http.tls_layer import TlsLayer
from routing.http.trace_context import ALL, trace_parents
from routing.http.upstream_pool import UpstreamPool
from routing.http.write_batch import WriteBatch
from routing.ipc.access_log import AccessLine, AccessLog, now
from routing.protocols.errors import error_content
from routing.proxy import orca_report
from routing.proxy.auth.client_keys import ClientKeys
from routing.proxy.auth.credential_watch import CredentialWatch
from routing.proxy.auth.key_guesses import KeyGuesses
from routing.proxy.auth.rechecks import Rechecks
from routing.proxy.connect_check import ConnectChecks
from routing.proxy.continuation_trials import ContinuationTrials
from routing.proxy.exchange.access_record import logged
from routing.proxy.exchange.authenticated_exchange import AuthenticatedExchange
from routing.proxy.exchange.exchange import Exchange
from routing.proxy.exchange.exchange_context import ExchangeContext
from routing.proxy.exchange.model_list import ALLOW
from routing.proxy.exchange.response_headers import replica_fields
from routing.proxy.exchange.route import RouteCache
from routing.proxy.exchange.sticky_registry import StickyRegistry
from routing.proxy.exchange.upstream_request import forwarding_fields
from routing.proxy.host_names import HostNames
from routing.proxy.limits.body_budget import BodyBudget
from routing.proxy.limits.connection_limit import REFUSAL, ConnectionLimit
from routing.proxy.limits.request_limits import default_body_limits
from routing.proxy.limits.unread_responses import UnreadResponses
from routing.proxy.queue_scheduler import QueueScheduler
from routing.proxy.settings import ProxySettings
from routing.proxy.stream_mover import StreamMover
from routing.proxy.tracing.tracer import Tracer, traced
from routing.proxy.upstream_endpoint import UpstreamEndpoint
from routing.shared.key_quotas import KeyQuotas
from routing.tls.context_cache import TlsContextCache


class Proxy:
    """Construct it inside a running event loop; :meth:`connection` is the protocol factory of a server."""

    def __init__(self, table: Table, settings: ProxySettings | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self.table = table
        self.settings = settings = settings or ProxySettings()
        self.limits = settings.limits
        self.via_name = settings.name.encode()
        self.sweeper = TimeoutSweeper(self._loop)
        self.disconnects = DisconnectWatcher(self._loop)
        self.writes = WriteBatch(self._loop)
        self.turns = ReadTurns(self._loop)
        self.known_heads = KnownHeads()
        self._held_heads = HeldHeads(self._loop)
        self.queue_scheduler = QueueScheduler(self._loop)
        table.set_waker(self.queue_scheduler)
        self._contexts = TlsContextCache()
        self._names = NameResolver(self._loop)
        self._host_names = HostNames(self._names, table)
        self.new_request_id = request_ids().__next__
        """Returns a new id with each call."""
        self.new_trace_parent: Callable[[], bytes]
        """Returns a new ``traceparent`` field with each call, preceded by CRLF; or nothing."""
        self.begin_traces(ALL)
        self.sticky_registry = StickyRegistry()
        """Which replica stores which response."""
        self.key_quotas = KeyQuotas(table.shared, table.quota_share)
        self.key_guesses = KeyGuesses()
        self.keys: ClientKeys
        """The client keys of the present manifest."""
        self._key_hashes: dict[str, list[str]] = {}
        self.exchange: Callable[[Client, RequestHead], Exchange]
        """Makes the exchange for a request head; client connections call it."""
        self._keys_required = False
        self.keys_optional = False
        """Whether requests without a known key are served."""
        self.where_keys_are_made = ""
        self._access_log: AccessLog | None = None
        self._tracer: Tracer | None = None
        self._clients: set[Client] = set()
        self.rechecks = Rechecks(self._loop, self._clients)
        """Of requests in flight, whose key may have been revoked, or whose path may be exposed no more."""
        self._follow_keys()
        table.on_manifest = self._follow_manifest
        self._credentials = CredentialWatch(self._loop, table)
        table.on_snapshot = self._follow_snapshot
        table.on_narrowed = self.rechecks.begin
        self.connect_checks = ConnectChecks(self._loop, self.endpoint)
        """Whether replicas that cannot be reached listen."""
        self.continuation_trials = ContinuationTrials(self._loop, table, self.endpoint)
        self.stream_mover = StreamMover(self._loop, table)
        """Frees replicas that are drained with ``move``."""
        self.rejected = 0
        self.certificate_ends_at: float | None = None
        """Of its listener, Unix seconds; ``None``: it has none."""
        """Requests rejected before any fleet was found: malformed, unknown model, too large."""
        self.acts: Counter[str] = Counter()
        """How often a connection ended at a time limit, by reason."""
        self.draining = False
        self.connection_limit = ConnectionLimit()
        self._tls: ssl.SSLContext | None = None
        self._trusted = TrustedProxies()
        self._reads_proxy_protocol = False
        self.scheme = b"http"
        """The scheme of clients' requests, for X-Forwarded-Proto."""
        self.handshakes: set[object] = set()
        """Those under way: PROXY protocol headers, and TLS."""
        self.routes = RouteCache(self.via_name, table.matches)
        self.bodies = BodyBudget(self._loop, self.sweeper, settings.bodies.memory_bytes)
        """The memory for request bodies."""
        self.unread = UnreadResponses(self._loop, self.connection_limit.neighbours)
        """The memory for responses that clients do not take."""
        self.unread.set(settings.bodies.memory_bytes)

    @property
    def refusal_unread(self) -> bytes:
        """The response to a connection over the limit from which nothing was read; with TLS there is none."""
        return REFUSAL if self._tls is None else b""

    @property
    def clients(self) -> int:
        """Open client connections."""
        return len(self._clients)

    @property
    def upstreams(self) -> int:
        """Open connections to replicas."""
        return sum(len(pool.open) for pool in self.sweeper.members if isinstance(pool, UpstreamPool))

    @property
    def gave_way(self) -> Counter[str]:
        """How often something ended at a bound that holds for whoever sends, by reason."""
        return self.acts + self.connection_limit.acts + self.bodies.acts + self.unread.acts

    def connection(self) -> asyncio.Protocol:
        """A protocol for one new client connection."""
        if self._reads_proxy_protocol:
            return ProxyProtocolLayer(self)
        return self._connection(ClientConnection(self))

    def _connection(self, client: ClientConnection) -> asyncio.Protocol:
        return client if self._tls is None else TlsLayer(self._tls, client, self, client.peer.decode())

    def speak_tls(self, context: ssl.SSLContext, ends_at: float | None = None) -> None:
        """From now on new connections use TLS with this context; open ones stay as they are.

        ``ends_at``: when its certificate does, Unix seconds."""
        self._tls = context
        self.certificate_ends_at = ends_at
        self.scheme = b"https"

    def stand_behind(self, trusted: TrustedProxies, proxy_protocol: bool) -> None:
        """Whose word about a client's address is taken, and whether each connection begins with it."""
        self._trusted = trusted
        self._reads_proxy_protocol = proxy_protocol

    def be_called(self, via_name: str) -> None:
        """The name in ``Via`` from now on. Before the first connection."""
        self.via_name = via_name.encode()
        self.routes = RouteCache(self.via_name, self.table.matches)

    def require_keys(self, where_they_are_made: str) -> None:
        """From now on no request is served without a client key, whatever the manifest says. The 401 says
        where keys are made."""
        self._keys_required = True
        self.where_keys_are_made = where_they_are_made
        self._follow_keys()

    def _follow_manifest(self) -> None:
        self._follow_keys()
        matches = self.table.matches
        if matches is not self.routes.matches:
            self.routes = RouteCache(self.via_name, matches)
            self.known_heads.clear()
            for client in self._clients:
                client.clear_head_cache()

    def _follow_keys(self) -> None:
        """Apply the manifest's client keys. Requests in flight end if their key was revoked or no longer
        opens their fleet. Others go on as they were admitted."""
        before, hashes = self._key_hashes, self.table.manifest.key_hashes
        self._key_hashes = hashes
        self.keys = ClientKeys(self.table.manifest, self.key_quotas)
        self.keys_optional = not (self._keys_required or self.keys.required)
        kind = Exchange if self.keys_optional and not self.keys else AuthenticatedExchange
        make: Callable[[ExchangeContext, Client, RequestHead], Exchange] = kind
        if self._access_log is not None:
            make = partial(logged, kind, self._access_log)
        if self._tracer is not None:
            make = partial(traced, make, self._tracer)
        self.exchange = partial(make, self)
        if before and before != hashes:
            self.rechecks.begin()

    def log_to(self, access_log: AccessLog) -> None:
        """From now on every request is logged there."""
        self._access_log = access_log
        self._follow_keys()

    def trace_to(self, tracer: Tracer) -> None:
        """From now on requests that it samples are recorded."""
        self._tracer = tracer
        self._follow_keys()

    def limit_bodies(self, bodies: BodySettings) -> None:
        """From now on these hold for request bodies."""
        self.settings = replace(self.settings, bodies=bodies)
        self.bodies.set(bodies.memory_bytes)
        self.unread.set(bodies.memory_bytes)

    def begin_traces(self, sample_percent: float | None) -> None:
        """Begin a trace for each request without one. ``sample_percent``: how many of these are marked as
        sampled; ``None``: begin none."""
        parents = repeat(b"") if sample_percent is None else trace_parents(sample_percent)
        self.new_trace_parent = parents.__next__

    def drain(self) -> None:
        """From now on every response closes its connection (``Connection: close``)."""
        self.draining = True

    def leave(self, quiet_s: float) -> bool:
        """Close the connections that have been idle for ``quiet_s``. Called again and again once no
        connection is accepted any more. Returns whether anything is left to wait for."""
        now = monotonic()
        left = [client.drain(now, quiet_s) for client in list(self._clients)]
        return any(left) or not self.idle()

    def idle(self) -> bool:
        """Whether no request is in flight and no response waits to be written."""
        return not (self.writes or self.handshakes or any(client.busy for client in self._clients))

    # What client connections need (routing.http.interfaces.ClientHost).

    @property
    def head_timeout_s(self) -> float:
        return self.table.bounds.head_s

    @property
    def body_limits(self) -> BodyLimits:
        return default_body_limits(self.table, self.settings)

    def opened(self, client: Client) -> None:
        self._clients.add(client)
        client.forwarding_fields = forwarding_fields(client.peer, self.scheme, self.via_name)
        peer = client.peer.decode()
        if self._trusted and self._trusted.is_trusted(peer):
            client.trusts = self._trusted
        self.connection_limit.on_accept(client, "" if client.trusts else client_group(peer))

    def closed(self, client: Client) -> None:
        self._clients.discard(client)
        self.unread.end(client)
        self.connection_limit.on_close(client)

    def on_half_head(self, client: Connection, size: int) -> None:
        self.connection_limit.on_half_head(client, size)

    def on_head(self, client: Connection) -> None:
        self.connection_limit.heads.end(client)

    def on_pipelined(self, client: Connection, size: int) -> None:
        self.connection_limit.on_pipelined(client, size)

    def on_untaken(self, client: Connection, size: int, since: float) -> None:
        self.unread.put(client, size, since)

    def behind_proxy_protocol(self, peer: str, source: str) -> asyncio.Protocol:
        client = ClientConnection(self)
        # Where proxies are named, others may say what they like.
        if source and (not self._trusted or self._trusted.is_trusted(peer)):
            client.peer = source.encode()
        return self._connection(client)

    def on_proxy_header_begin(self, connection: Connection, peer: str) -> None:
        # Connections of a load balancer are told apart once their header is complete.
        self.connection_limit.on_accept(connection, self._group(peer), shares=False)

    def on_tls_accept(self, connection: Connection, address: str) -> None:
        self.connection_limit.on_accept(connection, self._group(address))

    def _group(self, address: str) -> str:
        """What a connection of this address counts for; empty: for none."""
        trusted = self._trusted and self._trusted.is_trusted(address)
        return "" if trusted else client_group(address)

    def on_handshake_done(self, connection: Connection) -> None:
        self.connection_limit.on_handshake_done(connection)

    def on_layer_close(self, connection: Connection) -> None:
        self.connection_limit.on_close(connection)

    def refusal(self, error: RequestRefused, head_only: bool) -> bytes:
        self.rejected += 1
        if self._access_log is not None:
            line = AccessLine(time=now(), status=error.status, outcome="refused", code=error.code)
            self._access_log.add(line)
        content_type, body = error_content("generic", error.status, error.code, error.message)
        allow = ALLOW if error.status == 405 else b""
        return response_bytes(error.status, content_type, body, fields=allow, close=True, head_only=head_only)

    # What exchanges need.

    def _follow_snapshot(self, pool: Pool) -> None:
        self._credentials.follow(pool)
        self.continuation_trials.follow(pool)
        self.stream_mover.follow(pool)

    def endpoint(self, replica: Replica) -> UpstreamEndpoint:
        """The HTTP side of a replica, made when it is first needed."""
        endpoint = replica.endpoint
        if endpoint is None:
            settings, tls = self.settings, replica.security.tls
            address = replica.address
            pool = UpstreamPool(
                self._loop,
                self.sweeper,
                self.writes,
                self.turns,
                self._held_heads,
                self._names,
                address.host,
                address.port,
                address.authority,
                max_idle=settings.idle_connections,
                max_idle_s=settings.idle_connection_s,
                verification=None if tls is None else Verification(self._contexts, tls, address.host),
                evict_idle=self.give_back_idle,
                on_load_report=orca_report.load_listener(replica),
                on_idle_closed=partial(self._idle_closed, replica),
            )
            replica.endpoint = endpoint = UpstreamEndpoint(
                replica, pool, replica_fields(replica, self.via_name.decode())
            )
            endpoint.ask_load(replica.load_reports.asked)
            if replica.spec.credential:
                self._credentials.equip(replica)
        assert isinstance(endpoint, UpstreamEndpoint)
        return endpoint

    def _idle_closed(self, replica: Replica) -> None:
        pools = self.table.fleets.values()
        pool = next((pool for pool in pools if replica in pool.replicas), None)
        if pool is not None:
            self.connect_checks.idle_closed(pool, replica)

    def give_back_idle(self) -> bool:
        """Close idle connections to replicas, because file descriptors run short. Returns whether there were
        any."""
        pools = [pool for pool in self.sweeper.members if isinstance(pool, UpstreamPool) and pool.idle]
        for pool in pools:
            pool.evict_idle()
        return bool(pools)
