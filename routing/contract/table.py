"""The routing table: one manifest, one snapshot per fleet.

Both carry ``(epoch, version)``. The version grows with every write that changes what a proxy
would see; the epoch grows when a database is restored or replaced, so that a smaller version of a
later epoch is still the newer table. Only a manifest removes a fleet; an empty Redis means nothing.
"""

from typing import Literal, NamedTuple

import msgspec

from routing.contract.policy import Policy
from routing.contract.priority import DEFAULT_PRIORITY, Priority
from routing.contract.probe import Probe

Protocol = Literal["openai", "open-inference", "generic"]
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


class ReplicaSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One replica as a proxy needs to know it. Live load is not in here; it never crosses back."""

    uid: str
    name: str
    url: str
    """Base URL, normalised: ``http(s)://host:port`` with an optional path prefix, no trailing slash."""
    weight: float = 1.0
    """Speed relative to weight 1.0; 0 receives nothing new. Already resolved from the hardware class."""
    hardware: str = ""
    admin_state: AdminState = "active"
    health: Health = "ready"
    health_source: Literal["probe", "assumed"] = "assumed"
    has_passed: bool = True
    """Whether a probe of this replica has ever passed; panic ignores those that never did."""
    max_concurrency: int | None = None
    accelerators: list[str] = []
    """Devices that it runs on, by the manifest's names."""
    memory_bytes: int | None = None
    """What it holds on each of them all the time, its weights above all; ``None``: not said."""
    request_bytes: int = 0
    """What a request takes on each of them while it runs, beside what follows."""
    request_bytes_per_work: float = 0.0
    """The same for each unit of its estimated work. Servers that preallocate take neither."""
    startup_s: float | None = None
    """How long its start is expected to take: as the last that was seen, else as its fleet's others took in
    the middle; ``None``: none has been seen."""
    site: str = ""
    """Where it is; empty: near to proxies of every site."""
    version: str = ""
    credential: str = ""
    """Where the bearer token is that it wants: ``env:NAME`` or ``file:PATH``; empty: it wants none."""


class Tls(msgspec.Struct, frozen=True, kw_only=True):
    """How replicas at an ``https`` URL are verified. They always are."""

    ca: str = ""
    """Where certificates of the CAs to trust are: ``env:NAME`` or ``file:PATH``; empty: the system's."""
    server_name: str = ""
    """What the certificate must be for, and what SNI says; empty: the URL's host."""


class FleetSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a proxy must know to route for one fleet."""

    epoch: int
    version: int
    revision: int
    """Number of the policy revision in force; numbered apart from ``version``."""
    name: str
    protocol: Protocol
    aliases: list[str] = []
    adapters: list[str] = []
    """Names that replicas know besides the model's own, as of LoRA adapters: they are never changed."""
    served_model: str = ""
    """The name replicas expect in the request when it differs from the fleet's; empty: the same."""
    policy: Policy = Policy()
    probe: Probe = Probe()
    tls: Tls = Tls()
    replicas: list[ReplicaSpec] = []


class Match(msgspec.Struct, frozen=True, kw_only=True):
    """Requests that belong to a fleet by host and path (:mod:`routing.contract.matches`)."""

    host: str = ""
    """``name`` or ``*.suffix``, normalised; empty: any."""
    path_prefix: str = ""
    """Begins with a slash, ends without one; empty: any."""


class AcceleratorSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One physical device, shared by replicas of any fleet."""

    name: str
    memory_bytes: int
    headroom_percent: float = 5.0
    """Of its memory, kept free of leases."""


class KeyLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What one client key may use, whatever the fleet. ``None``: as much as there is."""

    id: str
    """What stands for the key in telemetry: a number of the control plane's, or its name in the file."""
    priority: Priority = DEFAULT_PRIORITY
    requests_per_minute: int | None = None
    max_concurrency: int | None = None
    """Requests in flight and waiting at one time."""
    tokens_per_minute: int | None = None
    """Prompt and output tokens together, as answers report them."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """Which fleets exist, at which version, and how a request finds one."""

    epoch: int
    version: int
    fleets: dict[str, int] = {}
    """Fleet name → version of its snapshot."""
    default: str | None = None
    """Fleet that takes requests which name none."""
    aliases: dict[str, str] = {}
    adapters: dict[str, str] = {}
    """Adapter → the fleet whose replicas serve it, under this very name."""
    matches: dict[str, list[Match]] = {}
    """Fleet name → requests that belong to it where nothing in the request names a fleet before them."""
    accelerators: list[AcceleratorSpec] = []
    key_hashes: dict[str, list[str]] = {}
    """Hash of each client key in force → names of the fleets that it opens; ``["*"]``: every fleet. A key
    whose fleets are gone has an empty list and opens nothing. As soon as one is in here, requests need a key.
    """
    key_limits: dict[str, KeyLimits] = {}
    """Of the keys in ``key_hashes``, by the same hashes; a key that is missing here has none."""
    key_salt: str = ""
    """What keys these hashes, hexadecimal (:mod:`routing.contract.client_keys`); empty: there are none."""
    proxies: list[str] = []


def encode(message: Manifest | FleetSnapshot) -> bytes:
    """JSON, so that ``redis-cli`` shows an operator what the proxies received."""
    return msgspec.json.encode(message)


def decode_manifest(data: bytes) -> Manifest:
    """Raises :class:`msgspec.ValidationError` or :class:`msgspec.DecodeError` on a bad message."""
    return msgspec.json.decode(data, type=Manifest)


def decode_snapshot(data: bytes) -> FleetSnapshot:
    """Raises :class:`msgspec.ValidationError` or :class:`msgspec.DecodeError` on a bad message."""
    return msgspec.json.decode(data, type=FleetSnapshot)
