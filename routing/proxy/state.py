"""What is known of one exchange while it goes on; read and changed by all that takes part in it.

Theory. An exchange goes through these states, told apart by three fields; each event either moves it on or
ends it, and whatever ends it settles the attempt that is open.

=========== ======= ======== ====== ==============================================================
state       attempt upstream answer what it waits for
=========== ======= ======== ====== ==============================================================
searching   None    None     None   the rest of the body, or to hear who keeps what it names
waiting     None    None     None   a place at a replica: ``waiting`` is set
connecting  set     None     None   a connection to the replica
asked       set     set      None   the response's head (and perhaps more of the request's body)
answering   set     set      set    the rest of the response
=========== ======= ======== ====== ==============================================================

Whoever takes ``attempt`` away settles it.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Protocol

from routing.contract.priority import DEFAULT_RANK
from routing.http.request_head import RequestHead
from routing.http.response_head import ResponseHead
from routing.http.roles import Client
from routing.http.upstream import UpstreamConnection
from routing.pool.one_replica import OneReplica
from routing.pool.pool import Attempt, Pool
from routing.proxy.host import Host
from routing.proxy.streamed import StreamedAnswer
from routing.proxy.upload import Upload
from routing.replica import Replica
from routing.shared.key_use import KeyUse


class Leaver(Protocol):
    """A place in a line."""

    def leave(self) -> None:
        """Give it up."""


class ExchangeState:
    """The fields of :class:`routing.proxy.exchange.Exchange`. Times are ``time.monotonic()`` seconds."""

    __slots__ = (
        "answer",
        "attempt",
        "body_bytes",
        "cancel_connecting",
        "client",
        "head",
        "key",
        "moved_at",
        "pool",
        "proxy",
        "repeatable",
        "request_id",
        "retried",
        "started",
        "stream",
        "trace",
        "tried",
        "upload",
        "upstream",
        "waiting",
        "work",
    )

    use: KeyUse | None = None
    """What keeps the books of the caller's key, until :meth:`end_use` has closed them. Where no keys are
    asked for it is not even a field."""

    key: tuple[int, ...]
    """Hashes of what the fleet's strategy goes by. Read by :mod:`routing.proxy.affinity_key` alone: until a
    replica is picked by it there is none."""

    def __init__(self, proxy: Host, client: Client, head: RequestHead) -> None:
        # Of the request.
        self.proxy = proxy
        self.client = client
        self.head = head
        self.started = self.moved_at = monotonic()
        """``moved_at``: when the present attempt last made progress."""
        new_id, begin_trace = proxy.request_id, proxy.trace_parent
        self.request_id = head.request_id or new_id()
        self.trace = begin_trace() if head.trace is None else b""
        """The field that begins a trace, preceded by CRLF, where the client has not begun one."""
        self.body_bytes = b""
        """The whole body, kept until a response begins; empty while ``upload`` is set."""
        self.upload: Upload | None = None
        self.stream = False
        """Whether the client asked to have the answer streamed."""
        self.work = 0.0
        """Estimated units; 0: no estimate; below 0: without the answer, the sign turned."""

        # Of the attempts.
        self.pool: Pool | None = None
        self.attempt: Attempt | None = None
        self.upstream: UpstreamConnection | None = None
        self.cancel_connecting: Callable[[], bool] | None = None
        self.tried: tuple[Replica, ...] | OneReplica = ()
        self.retried = b""
        """Fields that tell the client how often and why another attempt was made, each preceded by CRLF."""
        self.waiting: Leaver | None = None
        """Its place in the fleet's line, while no replica has one for it."""
        self.repeatable = True
        """Everything sent so far can be sent once more, and the client has seen nothing."""

        # Of the answer.
        self.answer: StreamedAnswer | None = None

    def answers_itself(self, code: str) -> None:
        """The proxy is about to answer with this error of its own. For whoever keeps a log."""

    def default(self) -> Pool | None:
        """The fleet for a request of this caller's that names none."""
        return self.named_by_key() or self.proxy.table.default

    def named_by_key(self) -> Pool | None:
        """The one fleet that the caller's key opens, where it opens one alone."""
        return None

    def end_use(self, tokens: int, prompt_unsaid: bool = False) -> None:
        """The request has ended, with these tokens used; to be called where ``use`` is set, on every way out.
        ``prompt_unsaid``: those of the prompt are not among them, for the answer did not say."""

    def end_use_answered(
        self, head: ResponseHead, body: bytes, output_tokens: int, says_tokens: bool
    ) -> None:
        """The same where the whole answer is at hand. ``output_tokens``: as it says; 0: it does not.
        ``says_tokens``: whether it says anything of tokens."""

    def priority(self) -> int:
        """Where the request stands among those that wait, by its place in
        :data:`routing.contract.priority.PRIORITIES`: the least is served first."""
        return DEFAULT_RANK

    def caller(self) -> bytes:
        """What its requests have in common, for telling its failures from others': its address."""
        return self.client.peer

    def may_use(self, fleet: str) -> bool:
        """Whether the fleet is one that the caller may use and hear of."""
        return True
