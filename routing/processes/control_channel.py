"""What the parent and one of its workers tell each other.

A Unix socket pair joins them (:mod:`routing.processes.framed_channel`). Each message is one of the structs
below. The end of the stream means that the other side is gone; a worker whose parent is gone leaves at once,
a parent whose worker is gone starts a successor.
"""

import msgspec

from routing.contract.log_line import Format
from routing.contract.table import FleetSnapshot, Manifest
from routing.processes.framed_channel import FramedChannel
from routing.replica_state.kept_ids import Place
from routing.tls.certificate import Certificate


class Start(msgspec.Struct, frozen=True, tag="start", kw_only=True):
    """Parent → worker, once, first: who the worker is and how it gets its table."""

    name: str
    """The proxy's name; the worker reports as ``name/parent pid/number``."""
    parent_pid: int
    number: int
    """No other worker of this parent that lives at the same time has it."""
    index: int
    """Of its slot."""
    incarnation: int
    redis_url: str | None
    """``None``: standalone, tables come from the parent."""
    log_level: str
    log_format: Format = "text"
    access_log: str | None = None
    """A path, ``-`` for standard output; ``None``: none."""
    max_connections: int | None = None
    """Client connections at one time; ``None``: what its descriptors allow."""
    keys_required: bool = False
    """Serve nobody without a client key, even while none exists."""
    certificate: Certificate | None = None
    """Speak TLS to clients; ``None``: plain HTTP."""
    trace_sample_percent: float | None = 100.0
    """Of the traces that the proxy begins; ``None``: it begins none."""
    site: str = ""
    """Where the proxy is; empty: nobody said."""
    state_dir: str | None = None
    """Where the parent keeps copies of tables, into which no replica's credential may lead."""


class Tables(msgspec.Struct, frozen=True, tag="tables", kw_only=True):
    """Both ways: what to route from.

    Parent → worker: the whole table; a successor begins with what the proxy knows. Worker → parent:
    what the worker has just taken from Redis, for the parent to keep.
    """

    manifest: Manifest | None
    snapshots: list[FleetSnapshot]


class NewCertificate(msgspec.Struct, frozen=True, tag="new_certificate", kw_only=True):
    """Parent → worker: for handshakes from now on."""

    certificate: Certificate


class Overrides(msgspec.Struct, frozen=True, tag="overrides", kw_only=True):
    """Parent → worker: replicas an operator drained at this proxy. All of them."""

    drained: list[tuple[str, str, float]]
    """Fleet, replica, and when that ends: monotonic seconds, the same in all processes of a host."""


class LimitsShared(msgspec.Struct, frozen=True, tag="limits_shared", kw_only=True):
    """Both ways: a worker has learned which part of the limits this proxy takes; its successors begin with it
    (:class:`routing.shared.host_share.HostShare`)."""

    position: int
    count: int


class Peers(msgspec.Struct, frozen=True, tag="peers", kw_only=True):
    """Parent → worker: the numbers of all workers that there are; theirs are the cells to look at."""

    numbers: list[int]


class Drain(msgspec.Struct, frozen=True, tag="drain", kw_only=True):
    """Parent → worker: finish; answers ask clients to close, but new connections are still taken."""

    alone: bool = False
    """Whether the proxy goes on, with another worker in this one's place."""


class StopAccepting(msgspec.Struct, frozen=True, tag="stop_accepting", kw_only=True):
    """Parent → worker: take no new connection; leave when nothing is in flight."""

    quiet_s: float
    """A connection is closed between two requests once nothing has come for so long."""
    followed: bool = False
    """Whether another process accepts from the same listener: then what waits there is left to it."""


class Explain(msgspec.Struct, frozen=True, tag="explain", kw_only=True):
    """Parent → worker: say of every replica whether it is eligible; answered by :class:`Explanation`."""

    question: int


class Serving(msgspec.Struct, frozen=True, tag="serving"):
    """Worker → parent: connections are being accepted."""


class Applied(msgspec.Struct, frozen=True, tag="applied", kw_only=True):
    """Worker → parent: the table it now routes from. Sent on every change."""

    manifest: str
    """``epoch:version``."""


class Reported(msgspec.Struct, frozen=True, tag="reported", kw_only=True):
    """Worker → parent, once a second: JSON of a WorkerReport, read only when somebody asks."""

    report: bytes


class ReplicaState(msgspec.Struct, frozen=True, kw_only=True):
    """One replica as one worker sees it."""

    name: str
    url: str
    in_flight: int
    eligible: bool
    asked: bool
    """Whether it receives requests: it is eligible, or too few others are."""
    reasons: list[str]
    """Why it is not eligible, and why it is asked nevertheless, in plain words."""


class Explanation(msgspec.Struct, frozen=True, tag="explanation", kw_only=True):
    """Worker → parent: the answer to :class:`Explain`; fleet name → its replicas."""

    question: int
    fleets: dict[str, list[ReplicaState]]


class Learned(msgspec.Struct, frozen=True, tag="learned", kw_only=True):
    """Worker → parent: which replica keeps a response (or a conversation) of this id."""

    name: str
    place: Place


class WhoKeeps(msgspec.Struct, frozen=True, tag="who_keeps", kw_only=True):
    """Worker → parent: a client names an id that the worker does not know; answered by :class:`KeptBy`."""

    question: int
    name: str


class KeptBy(msgspec.Struct, frozen=True, tag="kept_by", kw_only=True):
    """Parent → worker: the answer to :class:`WhoKeeps`."""

    question: int
    place: Place | None
    """``None``: no worker has learned it."""


Message = (
    Start
    | Tables
    | NewCertificate
    | Overrides
    | LimitsShared
    | Peers
    | Drain
    | StopAccepting
    | Explain
    | Serving
    | Applied
    | Reported
    | Explanation
    | Learned
    | WhoKeeps
    | KeptBy
)

_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


class ControlChannel(FramedChannel[Message]):
    """One end of the socket pair."""

    def decode(self, body: bytes) -> Message:
        return _decoder.decode(body)
