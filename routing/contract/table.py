"""The routing table: one manifest, one snapshot per fleet.

Both carry ``(epoch, version)``. The version grows with every write that changes what a proxy
would see; the epoch grows when a database is restored or replaced, so that a smaller version of a
later epoch is still the newer table. Only a manifest removes a fleet; an empty Redis means nothing.
"""

from collections.abc import Collection, Iterable
from typing import Literal, NamedTuple

import msgspec

from routing.contract.exposure import Expose
from routing.contract.policy import Policy
from routing.contract.priority import DEFAULT_PRIORITY, Priority
from routing.contract.probe import Probe

ApiProtocol = Literal["openai", "open-inference", "generic"]
AdminState = Literal["active", "draining", "maintenance"]
Health = Literal["checking", "ready", "unready", "down"]


class Version(NamedTuple):
    """Orders tables: a later epoch wins, then the higher version. Printed as ``epoch:number``."""

    epoch: int
    number: int

    def __str__(self) -> str:
        return f"{self.epoch}:{self.number}"

    @classmethod
    def parse(cls, text: str) -> "Version":
        """Read ``"1:482"``; raises ValueError when it is not of that form."""
        epoch, number = text.split(":")
        return cls(int(epoch), int(number))


MAX_EPOCH = 1_000_000_000
MAX_VERSION = 1_000_000_000_000
"""No control plane gets here: an epoch is a restore, a version a write. What is beyond was written by
mistake; a table that nothing could ever be newer than would stay for good."""


def implausible(version: Version) -> str:
    """Why no control plane wrote this version, for people; empty: one may have."""
    if 0 <= version.epoch <= MAX_EPOCH and 0 <= version.number <= MAX_VERSION:
        return ""
    limits = f"epochs end at {MAX_EPOCH}, versions at {MAX_VERSION}"
    return f"no control plane writes a version like {version}: {limits}"


class ReplicaSpec(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One replica as a proxy needs it. Without live load: the table never carries that."""

    uid: str
    name: str
    url: str
    """Base URL, normalised: ``http(s)://host:port`` with an optional path prefix, no trailing slash."""
    weight: float = 1.0
    """Speed relative to weight 1.0. 0: gets no new requests. Already resolved from the hardware class."""
    hardware: str = ""
    admin_state: AdminState = "active"
    move: bool = False
    """Whether the streams that can be continued are moved to other replicas, while it is taken out."""
    health: Health = "ready"
    health_source: Literal["probe", "assumed"] = "assumed"
    has_passed: bool = True
    """Whether a probe of this replica has ever passed; panic ignores those that never did."""
    max_concurrency: int | None = None
    accelerators: list[str] = []
    """Names of the devices that it runs on."""
    memory_bytes: int | None = None
    """Memory that it holds on each of them all the time, mainly its weights; ``None``: not stated."""
    request_bytes: int = 0
    """Fixed memory of one request on each of them while it runs."""
    request_bytes_per_work: float = 0.0
    """Additional memory per unit of its estimated work. Servers that preallocate need neither."""
    startup_s: float | None = None
    """Expected startup time: that of its last start, else the median of its fleet; ``None``: none was
    measured."""
    adapters: list[str] | None = None
    """Which of the fleet's adapters it serves; ``None``: all of them."""
    site: str = ""
    """Site; empty: local to proxies of every site."""
    version: str = ""
    """Of what it serves: only replicas of one version continue each other's answers."""
    credential: str = ""
    """Reference to the bearer token that it requires: ``env:NAME`` or ``file:PATH``; empty: none."""

    @property
    def is_vacated(self) -> bool:
        """Whether its streams are to leave."""
        return self.move and self.admin_state != "active"


class Tls(msgspec.Struct, frozen=True, kw_only=True):
    """How replicas at an ``https`` URL are verified. They always are."""

    ca: str = ""
    """Reference to the trusted CA certificates: ``env:NAME`` or ``file:PATH``; empty: the system's."""
    server_name: str = ""
    """Name that the certificate must be valid for, also sent as SNI; empty: the URL's host."""


class FleetSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a proxy must know to route for one fleet."""

    epoch: int
    version: int
    revision: int
    """Number of the policy revision in force; numbered apart from ``version``."""
    name: str
    protocol: ApiProtocol
    aliases: list[str] = []
    adapters: list[str] = []
    """Other names that the replicas know, such as LoRA adapters. They are forwarded unchanged."""
    served_model: str = ""
    """Name that replicas expect in the request; empty: the fleet's."""
    expose: Expose | None = None
    """What its clients may reach; ``None``: a fleet from before this setting, see
    :mod:`routing.contract.exposure`."""
    policy: Policy = Policy()
    probe: Probe = Probe()
    tls: Tls = Tls()
    replicas: list[ReplicaSpec] = []
    installation: str = ""
    """As in :class:`Manifest`."""


def unserved_adapters(of_fleet: Iterable[str], of_replicas: Iterable[Collection[str] | None]) -> list[str]:
    """Those of a fleet's adapters that none of its replicas serves, in their order; none where it has no
    replicas. ``of_replicas``: of each, those that it serves; ``None``: all."""
    served: set[str] = set()
    none = True
    for names in of_replicas:
        if names is None:
            return []
        none = False
        served.update(names)
    return [] if none else [name for name in of_fleet if name not in served]


class Match(msgspec.Struct, frozen=True, kw_only=True):
    """Routes requests to a fleet by host and path (:mod:`routing.contract.matches`)."""

    host: str = ""
    """``name`` or ``*.suffix``, normalised; empty: any."""
    path_prefix: str = ""
    """Begins with a slash, ends without one; empty: any."""


class AcceleratorSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One physical device, shared by replicas of any fleet."""

    name: str
    memory_bytes: int
    headroom_percent: float = 5.0
    """Share of the memory that is kept free: no weights, no leases."""


class KeyLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one client key, all fleets together. ``None``: no limit."""

    id: str
    """Id of the key in telemetry: a number from the control plane, or its name in the file."""
    priority: Priority = DEFAULT_PRIORITY
    weight: float = 1.0
    """Share of the queue within its class, relative to other clients."""
    requests_per_minute: int | None = None
    max_concurrency: int | None = None
    """Requests in flight and waiting at one time."""
    tokens_per_minute: int | None = None
    """Prompt and output tokens together, as responses report them."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """Which fleets exist, at which version, and how a request is routed to one."""

    epoch: int
    version: int
    fleets: dict[str, int] = {}
    """Fleet name → version of its snapshot."""
    default: str | None = None
    """Fleet that gets requests that name none."""
    aliases: dict[str, str] = {}
    adapters: dict[str, str] = {}
    """Adapter → the fleet whose replicas serve it, under the same name."""
    matches: dict[str, list[Match]] = {}
    """Fleet name → its matches. Used only if the request does not name a fleet in another way."""
    accelerators: list[AcceleratorSpec] = []
    key_hashes: dict[str, list[str]] = {}
    """Hash of each valid client key → names of the fleets that it may use; ``["*"]``: every fleet. A key
    whose fleets were deleted has an empty list and may use none."""
    keys_required: bool | None = None
    """Whether every request needs a client key, also while there is none in force; ``None``: while
    ``key_hashes`` is not empty (a fleet file, or an older version of the control plane)."""
    key_limits: dict[str, KeyLimits] = {}
    """Limits of the keys in ``key_hashes``, by the same hashes. A key that is missing here has none."""
    key_salt: str = ""
    """Key of the keyed hashes, hexadecimal (:mod:`routing.contract.client_keys`); empty: no hashes."""
    former_salt: str = ""
    """Key of some of the hashes, in the time after ``key_salt`` was replaced; empty: of none."""
    proxies: list[str] = []
    installation: str = ""
    """Id of the installation that published it (:mod:`routing.contract.installation`); empty: an older
    version of the control plane did, or there is none."""
    succeeded: list[str] = []
    """Installations that it has taken over from: proxies that route for one of these accept it."""


def encode(message: Manifest | FleetSnapshot) -> bytes:
    """JSON, so that ``redis-cli`` shows an operator what the proxies received."""
    return msgspec.json.encode(message)


def decode_manifest(data: bytes) -> Manifest:
    """Raises :class:`msgspec.ValidationError` or :class:`msgspec.DecodeError` on a bad message."""
    return msgspec.json.decode(data, type=Manifest)


def decode_snapshot(data: bytes) -> FleetSnapshot:
    """Raises :class:`msgspec.ValidationError` or :class:`msgspec.DecodeError` on a bad message."""
    return msgspec.json.decode(data, type=FleetSnapshot)
