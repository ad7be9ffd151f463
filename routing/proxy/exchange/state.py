"""State of one exchange while it goes on, read by all of the exchange's modules.

Theory. An exchange goes through these states, which three fields distinguish. Each event either moves it on
or ends it; every end completes the open attempt.

=========== ======= ======== ====== ==============================================================
state       attempt upstream answer what it waits for
=========== ======= ======== ====== ==============================================================
searching   None    None     None   the rest of the body
waiting     None    None     None   a slot at a replica, or the lookup of a stored response: ``waiting``
                                    is set
connecting  set     None     None   a connection to the replica: ``cancel_connecting`` is set
asked       set     set      None   the response's head (and perhaps more of the request's body)
answering   set     set      set    the rest of the response
=========== ======= ======== ====== ==============================================================

The code that clears ``attempt`` must complete it.

Each field has one writer, a module of this package. All others that want it changed call a verb there.

====================== ===================================================================
writer                 fields
====================== ===================================================================
exchange               client, head, proxy, request_id, started, trace: as it is made
router                 body_bytes, stream, upload, work
sticky_routing         pinned
affinity_key           key
upstream_exchange      answer, attempt, cancel_connecting, pool, progressed_at, repeatable,
                       retry_fields, tried, upstream
state                  waiting
authenticated_exchange quota
access_record          record
====================== ===================================================================

:class:`routing.proxy.exchange.exchange.Exchange` gives all of them, but ``key``, their first values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

from routing.balancing.pool.pinned_replica import PinnedReplica
from routing.balancing.pool.pool import Attempt, Pool
from routing.balancing.replica.state import Replica
from routing.contract.priority import DEFAULT_RANK
from routing.http.interfaces import Client
from routing.http.request_head import RequestHead
from routing.http.response_head import ResponseHead
from routing.http.upstream_connection import UpstreamConnection
from routing.proxy.exchange.exchange_context import ExchangeContext
from routing.proxy.exchange.request_body_buffer import RequestBodyBuffer
from routing.proxy.exchange.streaming_response import StreamingResponse
from routing.shared.key_quota import KeyQuota

Ending = Literal["answered", "local", "error", "cut", "client_left"]
"""How an exchange ends, as the access log says it: with a replica's response, a local reply, an error of the
proxy's own, a response that broke off, or a client that left."""


class ExchangeRecord(Protocol):
    """Records one exchange, for the access log: :mod:`routing.proxy.exchange.access_record`, which reads the
    exchange and so lies above its state."""

    def attempt_started(self, attempt: Attempt) -> None:
        """An attempt begins."""

    def completed(self, ending: Ending, code: str = "") -> None:
        """The exchange has ended. Call it before ``client.finish``, which may begin the next exchange.
        ``code``: of the proxy's error."""


class Cancellable(Protocol):
    """What an exchange without an attempt waits for: a queue's slot, or the lookup of a stored response."""

    def leave(self) -> None:
        """Stop waiting."""


class ExchangeState:
    """The fields of an exchange. Times are of ``time.monotonic()``."""

    __slots__ = (
        "answer",
        "attempt",
        "body_bytes",
        "cancel_connecting",
        "client",
        "head",
        "key",
        "pinned",
        "pool",
        "progressed_at",
        "proxy",
        "quota",
        "record",
        "repeatable",
        "request_id",
        "retry_fields",
        "started",
        "stream",
        "trace",
        "tried",
        "upload",
        "upstream",
        "waiting",
        "work",
    )

    # The request.

    proxy: ExchangeContext
    client: Client
    head: RequestHead
    started: float
    request_id: bytes

    trace: bytes
    """The field that begins a trace, preceded by CRLF, where the client has not begun one."""

    body_bytes: bytes
    """The whole body, kept until a response begins; empty while ``upload`` is set."""

    upload: RequestBodyBuffer | None
    """The body, where it did not come with its head, until it is here as a whole or to its end."""

    stream: bool
    """Whether the client asked to have the answer streamed."""

    work: float
    """Estimated units; 0: no estimate; below 0: without the answer, the sign turned."""

    pinned: PinnedReplica | None
    """The one that alone can serve it; ``None``: any of the fleet can."""

    key: tuple[int, ...]
    """Hashes of what the fleet's strategy goes by. Read by :mod:`routing.proxy.exchange.affinity_key`
    alone: until a replica is picked by it there is none."""

    # The attempts.

    pool: Pool | None
    attempt: Attempt | None
    upstream: UpstreamConnection | None
    cancel_connecting: Callable[[], bool] | None

    progressed_at: float
    """When the present attempt last made progress."""

    tried: tuple[Replica, ...]
    """Those that it has been at, which are not asked again."""

    retry_fields: bytes
    """Header fields for the client: how often and why the request was retried, each preceded by CRLF."""

    repeatable: bool
    """Everything sent so far can be sent once more, and the client has seen nothing."""

    waiting: Cancellable | None
    """Its entry in the fleet's queue, or its lookup of a stored response, while it waits for that."""

    # The answer, and the books.

    answer: StreamingResponse | None

    quota: KeyQuota | None
    """What keeps the books of the caller's key, until :meth:`settle_quota` has closed them."""

    record: ExchangeRecord | None
    """Set where an access log is kept, until the exchange has ended."""

    def wait_for(self, waiting: Cancellable) -> None:
        """It has no attempt until that comes about."""
        self.waiting = waiting

    def stop_waiting(self) -> None:
        """It came about, or the exchange ends."""
        self.waiting = None

    def default_fleet(self) -> Pool | None:
        """The fleet for a request of this caller's that names none."""
        return self.fleet_of_key() or self.proxy.table.default

    def fleet_of_key(self) -> Pool | None:
        """The one fleet that the caller's key opens, where it opens one alone."""
        return None

    def settle_quota(self, tokens: int, prompt_unsaid: bool = False) -> None:
        """The request has ended, with these tokens used; to be called where ``quota`` is set, on every way
        out. ``prompt_unsaid``: those of the prompt are not among them, for the answer did not say."""

    def settle_quota_from_body(
        self, head: ResponseHead, body: bytes, output_tokens: int, says_tokens: bool
    ) -> None:
        """The same for a response that is there as a whole. ``output_tokens``: from its ``usage``; 0:
        unknown. ``says_tokens``: whether it has any token count."""

    def priority(self) -> int:
        """The request's priority class, as its index in :data:`routing.contract.priority.PRIORITIES`: the
        least is served first."""
        return DEFAULT_RANK

    def caller(self) -> bytes:
        """An identity for outlier detection, common to the client's requests: its address."""
        return self.client.peer

    def may_use(self, fleet: str) -> bool:
        """Whether the fleet is one that the caller may use and hear of."""
        return True
