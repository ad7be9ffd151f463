"""Control channel: the messages between the master and one of its workers.

A Unix socket pair joins them (:mod:`routing.ipc.framed_channel`). Each message is one of the structs
below. The end of the stream means that the other side is gone: the worker then serves on as an orphan
(:mod:`routing.ipc.listener_handover`), the master starts a successor.
"""

import msgspec

from routing.contract.address_rules import AddressRules
from routing.contract.body_settings import BodySettings
from routing.contract.log_format import Format
from routing.contract.snapshot_chunks import EncodedSnapshot
from routing.contract.table import FleetSnapshot, Manifest
from routing.contract.tracing import TracingSettings
from routing.ipc.framed_channel import FramedChannel
from routing.shared.sticky_ids import ReplicaRef
from routing.tls.certificate import Certificate

_PLACE = {"replica_ref": "place"}
"""Encoded under its former name: once the package is replaced on disk, a worker that is started again is
newer than its master."""


class WorkerBootstrap(msgspec.Struct, frozen=True, tag="start", kw_only=True):
    """Master → worker, once, first: who the worker is and how it gets its table."""

    name: str
    """The proxy's name; the worker reports as ``name/master pid/number``."""
    parent_pid: int
    number: int
    """No other worker of this master that lives at the same time has it."""
    index: int
    """Of its slot."""
    incarnation: int
    redis_url: str | None
    """``None``: standalone, tables come from the master."""
    log_level: str
    log_format: Format = "text"
    access_log: str | None = None
    """A path, ``-`` for standard output; ``None``: none."""
    max_connections: int | None = None
    """Client connections at one time; ``None``: what its descriptors allow."""
    bodies: BodySettings = BodySettings()
    """Bounds of request bodies."""
    keys_required: bool = False
    """Require a client key, even while none exists."""
    certificate: Certificate | None = None
    """Speak TLS to clients; ``None``: plain HTTP."""
    trace_sample_percent: float | None = 100.0
    """Of the traces that the proxy begins; ``None``: it begins none."""
    site: str = ""
    """The proxy's site; empty: not configured."""
    drain_s: float = 30.0
    """How long it may finish its requests without a master."""
    state_dir: str | None = None
    """Where the master keeps copies of tables, into which no replica's credential may lead."""
    addresses: AddressRules = AddressRules()
    """Which addresses replicas may have."""
    trusted_proxies: tuple[str, ...] = ()
    """Networks whose word about a client's address is taken."""
    proxy_protocol: bool = False
    """Whether each connection begins with a PROXY protocol header."""
    via_name: str = "switchyard"
    """The proxy's name in ``Via``."""
    prefixes_fd: int | None = None
    """Inherited descriptor of the prefix memory; ``None``: the master has none."""
    totals_fd: int | None = None
    """Inherited descriptor of the block of totals; ``None``: the master has none."""
    tracing: TracingSettings | None = None
    """Record requests as traces; ``None``: nobody exports them."""


class Tables(msgspec.Struct, frozen=True, tag="tables", kw_only=True):
    """Both ways: the routing table.

    Master → worker: the whole table, so that a successor begins with the proxy's present one. Worker →
    master: the part that the worker has just taken from Redis, for the master to keep.
    """

    manifest: Manifest | None
    snapshots: list[FleetSnapshot]


class EncodedTables(msgspec.Struct, frozen=True, tag="tables", kw_only=True):
    """:class:`Tables` as a worker receives it, to be decoded in steps."""

    manifest: Manifest | None
    snapshots: list[EncodedSnapshot]


class NewCertificate(msgspec.Struct, frozen=True, tag="new_certificate", kw_only=True):
    """Master → worker: for handshakes from now on."""

    certificate: Certificate


class Overrides(msgspec.Struct, frozen=True, tag="overrides", kw_only=True):
    """Master → worker: replicas an operator drained at this proxy. All of them."""

    drained: list[tuple[str, str, float]]
    """Fleet, replica, and when that ends: monotonic seconds, the same in all processes of a host."""


class LimitsShared(msgspec.Struct, frozen=True, tag="limits_shared", kw_only=True):
    """Both ways: this proxy's share of the limits, learned by a worker; its successors begin with it
    (:class:`routing.shared.quota_share.QuotaShare`)."""

    position: int
    count: int


class Siblings(msgspec.Struct, frozen=True, tag="peers", kw_only=True):
    """Master → worker: the numbers of all running workers, whose shared counters are to be read."""

    numbers: list[int]


class Drain(msgspec.Struct, frozen=True, tag="drain", kw_only=True):
    """Master → worker: drain; responses ask clients to close, but new connections are still taken."""

    alone: bool = False
    """Whether the proxy goes on, with a successor of this worker."""


ENDING_QUIET_S = 1.0
"""A client that has just connected, or just got a response, may be sending a request."""
FOLLOWED_QUIET_S = 15.0
"""Clients that send under load come back to an idle connection within seconds, some just as it is closed."""


def quiet_time_s(followed: bool, drain_s: float) -> float:
    """For how long a connection must have been idle to be closed by a worker that leaves, in seconds.

    The longer, the fewer clients meet a closed one: most send again before, and the response tells them to
    close. Where another process serves on (``followed``), there is time for that; but half of ``drain_s`` is
    left, after which the worker is ended whatever is open.
    """
    return min(FOLLOWED_QUIET_S, drain_s / 2) if followed else ENDING_QUIET_S


class StopAccepting(msgspec.Struct, frozen=True, tag="stop_accepting", kw_only=True):
    """Master → worker: take no new connection; leave when nothing is in flight."""

    quiet_s: float
    """A connection is closed between two requests once nothing has come for so long; :func:`quiet_time_s`."""
    followed: bool = False
    """Whether another process accepts from the same listener: then what waits there is left to it."""


class QueryReplicaStates(msgspec.Struct, frozen=True, tag="explain", kw_only=True):
    """Master → worker: is each replica eligible? The reply is :class:`ReplicaStates`."""

    question: int


class Serving(msgspec.Struct, frozen=True, tag="serving"):
    """Worker → master: connections are being accepted."""


class Applied(msgspec.Struct, frozen=True, tag="applied", kw_only=True):
    """Worker → master: the table it now routes from. Sent on every change."""

    manifest: str
    """``epoch:version``."""


class TelemetryReport(msgspec.Struct, frozen=True, tag="reported", kw_only=True):
    """Worker → master, once a second: JSON of a WorkerReport, read only when somebody asks."""

    report: bytes


class TracesFinished(msgspec.Struct, frozen=True, tag="traces", kw_only=True):
    """Worker → master, a few times a second where traces are exported."""

    traces: bytes
    """As of :mod:`routing.ipc.finished_traces`."""
    spans: int
    """How many are in there."""
    dropped: int
    """Spans that the worker had no room for, since it last sent some."""
    over_limit: int
    """Traces that were not recorded because there were too many, likewise."""


class ReplicaState(msgspec.Struct, frozen=True, kw_only=True):
    """One replica as one worker sees it."""

    name: str
    url: str
    in_flight: int
    eligible: bool
    asked: bool
    """Whether it receives requests: it is eligible, or too few others are."""
    reasons: list[str]
    """Why it is not eligible, and why it still gets requests, for people."""


class ReplicaStates(msgspec.Struct, frozen=True, tag="explanation", kw_only=True):
    """Worker → master: the reply to :class:`QueryReplicaStates`; fleet name → its replicas."""

    question: int
    fleets: dict[str, list[ReplicaState]]


class StickyLearned(msgspec.Struct, frozen=True, tag="learned", rename=_PLACE, kw_only=True):
    """Worker → master: the replica that stores the response (or the conversation) with this id."""

    name: str
    replica_ref: ReplicaRef
    from_redis: bool = False
    """Redis has it, and so it holds, whatever this host's workers have learned. A field, because a master of
    version 0.1.0 knows no other message, and ignores it."""


class StickyCorrection(msgspec.Struct, frozen=True, tag="corrected", rename=_PLACE, kw_only=True):
    """Master → worker: the replica that was heard of first for this id. It holds, whatever the worker has
    learned."""

    name: str
    replica_ref: ReplicaRef


class QuerySticky(msgspec.Struct, frozen=True, tag="who_keeps", kw_only=True):
    """Worker → master: a client names an id that this worker does not know; see :class:`StickyReply`."""

    question: int
    name: str


class StickyReply(msgspec.Struct, frozen=True, tag="kept_by", rename=_PLACE, kw_only=True):
    """Master → worker: the reply to :class:`QuerySticky`."""

    question: int
    replica_ref: ReplicaRef | None
    """``None``: no worker has learned it."""


_Other = (
    WorkerBootstrap
    | NewCertificate
    | Overrides
    | LimitsShared
    | Siblings
    | Drain
    | StopAccepting
    | QueryReplicaStates
    | Serving
    | Applied
    | TelemetryReport
    | TracesFinished
    | ReplicaStates
    | StickyLearned
    | StickyCorrection
    | QuerySticky
    | StickyReply
)

ControlMessage = _Other | Tables
WorkerMessage = ControlMessage | EncodedTables
"""What a worker sends or receives."""

_decoder: msgspec.msgpack.Decoder[ControlMessage] = msgspec.msgpack.Decoder(ControlMessage)
_worker_decoder: msgspec.msgpack.Decoder[_Other | EncodedTables] = msgspec.msgpack.Decoder(
    _Other | EncodedTables
)


class ControlChannel(FramedChannel[ControlMessage]):
    """The master's end of the socket pair."""

    def decode(self, body: bytes) -> ControlMessage:
        return _decoder.decode(body)


class WorkerControlChannel(FramedChannel[WorkerMessage]):
    """The worker's end."""

    def decode(self, body: bytes) -> WorkerMessage:
        return _worker_decoder.decode(body)
