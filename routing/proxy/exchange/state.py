"""Exchange state (stream state): the fields of one exchange, which all of its modules read.

Theory. An exchange goes through these states. Three fields distinguish them: ``attempt``, ``upstream``, and
``streaming_response`` (in the table: response). Each event moves it to the next state or ends it. Every end
settles the open attempt.

=========== ======= ======== ======== ============================================================
state       attempt upstream response waits for
=========== ======= ======== ======== ============================================================
searching   None    None     None     the rest of the body
waiting     None    None     None     a slot at a replica, or the lookup of a stored response:
                                      ``waiting`` is set
connecting  set     None     None     a connection to the replica: ``cancel_connecting`` is set
requested   set     set      None     the response's head (and perhaps more of the request's body)
streaming   set     set      set      the rest of the response
=========== ======= ======== ======== ============================================================

The code that clears ``attempt`` must settle it.

Each field has one writer, a module of this package. Other modules call a function there to have it changed.

====================== ===================================================================
writer                 fields
====================== ===================================================================
exchange               client, head, proxy, request_id, started, trace: as it is made
router                 body_bytes, body_charge, model, stream, upload, work
sticky_routing         pinned
affinity_key           key
needed_adapters        named_adapters
upstream_exchange      attempt, cancel_connecting, never_sent, pool, progressed_at, repeatable,
                       retry_fields, streaming_response, tried, upstream
state                  waiting
authenticated_exchange quota
access_record          record
====================== ===================================================================

What :mod:`routing.proxy.exchange.failed_attempt` decides, ``upstream_exchange`` writes.
:class:`routing.proxy.exchange.exchange.Exchange` sets the first value of all of them but ``key`` and
``named_adapters``.
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
from routing.proxy.exchange.client_address import client_address
from routing.proxy.exchange.exchange_context import ExchangeContext
from routing.proxy.exchange.request_body_buffer import RequestBodyBuffer
from routing.proxy.exchange.streaming_response import StreamingResponse
from routing.proxy.limits.body_charge import BodyCharge
from routing.shared.key_quota import KeyQuota

Ending = Literal["answered", "local", "error", "cut", "client_left"]
"""How an exchange ends, as the access log says it: with a replica's response, a local reply, an error of the
proxy's own, a response that broke off, or a client that left."""


class ExchangeRecord(Protocol):
    """Records one exchange for the access log. A protocol: :mod:`routing.proxy.exchange.access_record`, which
    implements it, reads exchanges, and the import contracts forbid a cycle even between types."""

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
        "attempt",
        "body_bytes",
        "body_charge",
        "cancel_connecting",
        "client",
        "head",
        "key",
        "model",
        "named_adapters",
        "never_sent",
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
        "streaming_response",
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
    """The ``traceparent`` field, preceded by CRLF, if the client has sent none; or nothing."""

    body_bytes: bytes
    """The whole body, kept for a retry until a response begins; empty while ``upload`` is set."""

    body_charge: BodyCharge | None
    """What the body counts in the worker's budget, from its first byte until no byte of it is held. A body
    of a few KiB that came with its head counts nothing."""

    upload: RequestBodyBuffer | None
    """The buffer of a body that did not come with its head; ``None`` once it is collected as a whole."""

    stream: bool
    """Whether the client asked for a streamed response."""

    model: str
    """That a JSON body or a form names, as it is forwarded; empty: it was not read for that."""

    work: float
    """Estimated units; 0: no estimate; below 0: the absolute value is the estimate without the response. A
    :class:`routing.balancing.attempt.stated_work.StatedWork` where its client has stated it."""

    pinned: PinnedReplica | None
    """The only replica that can serve it; ``None``: any of the fleet can."""

    key: tuple[int, ...]
    """Hashes of its affinity key. Only :mod:`routing.proxy.exchange.affinity_key` reads it: the field is
    unset until a strategy needs it."""

    named_adapters: tuple[str, ...]
    """Adapters of its fleet that it names. Likewise, of :mod:`routing.proxy.exchange.needed_adapters`."""

    # The attempts.

    pool: Pool | None
    attempt: Attempt | None
    upstream: UpstreamConnection | None
    cancel_connecting: Callable[[], bool] | None

    progressed_at: float
    """When the present attempt last made progress: for the idle timeout."""

    tried: tuple[Replica, ...]
    """Replicas that were tried, which are not tried again."""

    never_sent: int
    """How many attempts reached no replica: those were refused, not sent to."""

    retry_fields: bytes
    """Header fields for the client: how often and why the request was retried, each preceded by CRLF."""

    repeatable: bool
    """Whether everything sent so far can be sent again, and the client has seen no response."""

    waiting: Cancellable | None
    """Its entry in the fleet's queue, or its lookup of a stored response, while it waits for that."""

    # The response, and the accounts.

    streaming_response: StreamingResponse | None
    """Set once the head of a response has come whose body is not complete yet."""

    quota: KeyQuota | None
    """The quota of the caller's key, until :meth:`settle_quota` is called."""

    record: ExchangeRecord | None
    """Set if there is an access log, until the exchange has ended."""

    def wait_for(self, waiting: Cancellable) -> None:
        """Wait for a slot or a lookup. Until then there is no attempt."""
        self.waiting = waiting

    def stop_waiting(self) -> None:
        """The wait is over, or the exchange ends."""
        self.waiting = None

    def default_fleet(self) -> Pool | None:
        """The fleet for a request of this caller that names none."""
        return self.fleet_of_key() or self.proxy.table.default

    def fleet_of_key(self) -> Pool | None:
        """The fleet of the caller's key, if the key may use exactly one."""
        return None

    def settle_quota(self, tokens: int, prompt_tokens_unknown: bool = False) -> None:
        """The request has ended and has used ``tokens``. Called on every way out, if ``quota`` is set.
        ``prompt_tokens_unknown``: without the prompt's tokens, which the response did not report."""

    def settle_quota_from_body(self, head: ResponseHead, body: bytes, usage: tuple[int, int] | None) -> None:
        """The same for a complete response. ``usage``: as of :func:`routing.protocols.openai.usage_of`."""

    # For the budget of bodies (BodyOwner). The exchange, which lies above, implements it.

    def pause_collecting(self) -> None:
        raise NotImplementedError

    def resume_collecting(self) -> None:
        raise NotImplementedError

    def refuse_body(self) -> None:
        raise NotImplementedError

    def free_retry_copy(self) -> bool:
        raise NotImplementedError

    def measure_upload(self) -> None:
        raise NotImplementedError

    def end_upload(self) -> None:
        raise NotImplementedError

    @property
    def neighbours(self) -> int:
        raise NotImplementedError

    def priority(self) -> int:
        """The request's priority class, as its index in :data:`routing.contract.priority.PRIORITIES`: 0 is
        served first."""
        return DEFAULT_RANK

    def weight(self) -> float:
        """The caller's share of the queue within that class, relative to other clients."""
        return 1.0

    def caller(self) -> bytes:
        """The client's identity for outlier detection, the same for all its requests: its address."""
        return client_address(self.client, self.head)

    def may_use(self, fleet: str) -> bool:
        """Whether the caller may use the fleet, and see its name."""
        return True
