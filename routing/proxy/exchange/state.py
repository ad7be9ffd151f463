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
exchange               client, proxy, request_id, started: as it is made
router                 body_bytes, body_charge, head, model, own_work, stream, upload, work
sticky_routing         pinned
affinity_key           key
needed_adapters        named_adapters
held_beginning         held
upstream_exchange      attempt, cancel_connecting, extra_attempts, fallen, informed, never_sent, pool,
                       progressed_at, repeatable, retry_fields, second, streaming_response, tried, upstream
token_measures         first_token_at
second_attempt         second_timer, second_noted, second_silent
state                  record, trace, waiting
authenticated_exchange quota
====================== ===================================================================

What :mod:`routing.proxy.exchange.failed_attempt` decides, ``upstream_exchange`` writes.
:class:`routing.proxy.exchange.exchange.Exchange` sets the first value of all of them but ``fallen``,
``first_token_at``, ``informed``, ``key``, ``named_adapters`` and those of ``second_attempt``.
"""

from __future__ import annotations

from asyncio import TimerHandle
from collections.abc import Callable
from typing import Literal, Protocol

from routing.balancing.pool.pinned_replica import PinnedReplica
from routing.balancing.pool.pool import Attempt, Pool
from routing.balancing.replica.state import Replica
from routing.contract.policy import FallbackCause
from routing.contract.priority import DEFAULT_RANK
from routing.http.interfaces import Client
from routing.http.request_head import RequestHead
from routing.http.response_head import ResponseHead
from routing.http.upstream_connection import UpstreamConnection
from routing.protocols.stream_start import StreamStart
from routing.proxy.exchange.client_address import client_address
from routing.proxy.exchange.exchange_context import ExchangeContext
from routing.proxy.exchange.fallen_back import FallenBack
from routing.proxy.exchange.request_body_buffer import RequestBodyBuffer
from routing.proxy.exchange.streaming_response import StreamingResponse
from routing.proxy.limits.body_charge import BodyCharge
from routing.shared.key_quota import KeyQuota

Ending = Literal["answered", "local", "error", "cut", "client_left"]
"""How an exchange ends, as the access log says it: with a replica's response, a local reply, an error of the
proxy's own, a response that broke off, or a client that left."""


class ExchangeRecord(Protocol):
    """Records one exchange, for the access log or as a trace. A protocol:
    :mod:`routing.proxy.exchange.access_record` and :mod:`routing.proxy.tracing`, which implement it, read
    exchanges, and the import contracts forbid a cycle even between types."""

    def queued(self, now: float) -> None:
        """It waits for a slot, from now on until an attempt begins or it ends."""

    def attempt_started(self, attempt: Attempt, reason: str) -> None:
        """An attempt begins. ``reason``: why there is another one; empty: it is the first."""

    def second_started(self, attempt: Attempt, reason: str) -> None:
        """So does another one, beside it."""

    def sends(self, attempt: Attempt) -> None:
        """The request is sent to the replica of this attempt, on a connection that was just made."""

    def second_ended(self, result: str, attempt: Attempt | None = None) -> None:
        """It has. ``attempt``: it is the request's from now on."""

    def completed(self, ending: Ending, code: str = "", usage: tuple[int, int] | None = None) -> None:
        """The exchange has ended. Call it before ``client.finish``, which may begin the next exchange.
        ``code``: of the proxy's error. ``usage``: output tokens, and those with the prompt's, of an answer
        that came in one piece, if it says so."""


class SecondInFlight(Protocol):
    """A second attempt beside ``attempt``. A protocol: :mod:`routing.proxy.exchange.second_attempt`, which
    implements it, starts attempts, and is above this module."""

    attempt: Attempt

    def check(self, now: float) -> None:
        """Time passes."""

    def take_over(self, now: float) -> None:
        """The first attempt has failed, and is settled: this one is the request's from now on."""

    def give_up(self, result: str, now: float) -> None:
        """It is not needed any more. ``result``: as :class:`routing.contract.telemetry.FleetCounters` has
        it."""


class HeldInFlight(Protocol):
    """The beginning of a response. :class:`routing.proxy.exchange.held_beginning.HeldBeginning` is one."""

    head: ResponseHead
    body: bytes
    start: StreamStart | None
    until: float

    def give_up_kept(self) -> None:
        """Its memory is wanted."""


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
        "extra_attempts",
        "fallen",
        "first_token_at",
        "head",
        "held",
        "informed",
        "key",
        "model",
        "named_adapters",
        "never_sent",
        "own_work",
        "pinned",
        "pool",
        "progressed_at",
        "proxy",
        "quota",
        "record",
        "repeatable",
        "request_id",
        "retry_fields",
        "second",
        "second_noted",
        "second_silent",
        "second_timer",
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
    """The ``traceparent`` field for the replica, preceded by CRLF; nothing: the client's own goes there, or
    none."""

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
    """Estimated units; 0: no estimate; below 0: the absolute value is the estimate without the response. What
    its client has stated, where :attr:`own_work` is set."""

    own_work: float | None
    """The proxy's own estimate, where ``work`` is what the client has stated; ``None``: ``work`` is it."""

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

    extra_attempts: int
    """How many attempts there were besides the first, without those that reached no replica."""

    held: HeldInFlight | None
    """What has come of the response to ``attempt``, as long as it is held back; ``None``: nothing is."""

    second: SecondInFlight | None
    """Beside ``attempt``, to the same request; ``None``: there is none (any more)."""

    second_timer: TimerHandle | None
    """Until ``attempt`` is late. Only :mod:`routing.proxy.exchange.second_attempt` reads it and the next:
    they are unset until a request is nearly late."""

    second_noted: bool
    """Whether it was counted that it was late, and was not sent to a second replica."""

    second_silent: bool
    """Whether another fleet was asked, because nothing had come from the replicas."""

    fallen: FallenBack
    """Unset until another fleet than the one that was asked serves the request. Read :attr:`fallen_back`."""

    first_token_at: float
    """Unset until the first content of a streamed answer has come. Read :attr:`first_token_came_at`."""

    informed: bool
    """Unset until the client has had an informational response. Read :attr:`was_informed`."""

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
    """Set if there is an access log, or the exchange is traced, until it has ended."""

    @property
    def fallen_back(self) -> FallenBack | None:
        """Where the request came from; ``None``: the fleet that was asked serves it."""
        # Unset, not even None, until then: other requests spend no time on it.
        return getattr(self, "fallen", None)

    @property
    def estimated_work(self) -> float:
        """The proxy's own estimate of the request's work, whatever its client has stated."""
        return self.work if self.own_work is None else self.own_work

    @property
    def first_token_came_at(self) -> float:
        """When the first content of a streamed answer came; 0: none has."""
        return getattr(self, "first_token_at", 0.0)

    @property
    def was_informed(self) -> bool:
        """Whether the client has had an informational response."""
        return getattr(self, "informed", False)

    def falls_back(self, cause: FallbackCause, now: float, tried: tuple[Replica, ...]) -> bool:
        """Whether another fleet serves the request from now on. ``tried``: the replicas that have had it."""
        raise NotImplementedError

    @property
    def nothing_sent(self) -> bool:
        """Whether the client has got nothing of any response yet, so that another replica may be asked."""
        return self.streaming_response is None

    def wait_for(self, waiting: Cancellable) -> None:
        """Wait for a slot or a lookup. Until then there is no attempt."""
        self.waiting = waiting

    def record_with(self, record: ExchangeRecord | None) -> None:
        """From now on this one is told what happens; ``None``: nobody is."""
        self.record = record

    def continue_trace(self, field: bytes) -> None:
        """From now on replicas get this ``traceparent`` field, preceded by CRLF."""
        self.trace = field

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

    def settle_quota_from_body(
        self, head: ResponseHead, usage: tuple[int, int] | None, output: int, bucket: int
    ) -> None:
        """The same for a complete response. ``usage``: as of :func:`routing.protocols.openai.usage_of`;
        ``output``: what was counted where that is ``None``; ``bucket``: of the sketch, for how long the
        request took."""

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
