"""Structs of a fleet file: what it says, as typed values, with their defaults.

The reference for people is ``docs/fleet-file.md``; its tables are checked against these structs.
"""

import msgspec

from routing.contract.exposure import Expose
from routing.contract.fleet_file.sources.source_structs import SourceEntry
from routing.contract.policy import Policy
from routing.contract.priority import DEFAULT_PRIORITY, Priority
from routing.contract.probe import Probe
from routing.contract.table import AcceleratorSpec, AdminState, ApiProtocol, Match, Tls

FILE_VERSION = 1


class HardwareEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A named kind of hardware."""

    name: str
    weight: float = 1.0


class ReplicaEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One replica of a fleet."""

    name: str
    url: str
    """Normalised (:func:`routing.contract.addresses.normalise_url`)."""
    hardware: str = ""
    """Name of a hardware class; empty: none."""
    weight: float | None = None
    """``None``: the hardware class's weight, or 1.0 without one."""
    max_concurrency: int | None = None
    """``None``: as the fleet's policy says."""
    accelerators: list[str] = []
    """Names of the devices that it runs on."""
    memory_bytes: int | None = None
    """Memory that it holds on each of them all the time, mainly its weights; ``None``: not stated."""
    request_bytes: int = 0
    """Fixed memory of one request on each of them while it runs."""
    request_bytes_per_work: float = 0.0
    """Additional memory per unit of its estimated work."""
    adapters: list[str] | None = None
    """Which of the fleet's adapters it serves; ``None``: all of them."""
    site: str = ""
    """Site; empty: local to proxies of every site."""
    version: str = ""
    """Of what it serves: only replicas of one version continue each other's answers."""
    credential: str = ""
    """Reference to the bearer token that it requires: ``env:NAME`` or ``file:PATH``; empty: none."""
    admin_state: AdminState | None = None
    """``None``: an existing replica keeps its state when the file is applied; a new one is active."""
    move: bool | None = None
    """Whether its streams are moved while it is taken out; ``None``: likewise, and not."""


class FleetEntry(msgspec.Struct, frozen=True, kw_only=True):
    """All replicas that serve one model, and how requests are spread over them."""

    name: str
    protocol: ApiProtocol
    aliases: list[str] = []
    adapters: list[str] = []
    served_model: str = ""
    expose: Expose | None = None
    """``None``: a control plane makes a new fleet with ``inference`` and leaves that of another as it is; a
    proxy that runs from the file alone refuses nothing and warns."""
    credential: str = ""
    """For replicas that have none of their own."""
    match: list[Match] = []
    """Normalised (:mod:`routing.contract.matches`)."""
    labels: dict[str, str] = {}
    """For the control plane: which roles may see and change the fleet."""
    default: bool = False
    policy: Policy = Policy()
    probe: Probe = Probe()
    tls: Tls = Tls()
    replicas: list[ReplicaEntry] = []
    sources: list[SourceEntry] | None = None
    """What lists further replicas; ``None``: a control plane leaves those of the fleet as they are."""


class ClientKeyEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A client key of a proxy that runs from the file alone. The key itself is never in the file."""

    name: str
    key: str
    """Reference to the key: ``env:NAME`` or ``file:PATH``."""
    fleets: list[str] | None = None
    """``None``: every fleet."""
    priority: Priority = DEFAULT_PRIORITY
    weight: float = 1.0
    requests_per_minute: int | None = None
    max_concurrency: int | None = None
    tokens_per_minute: int | None = None
    """Limits as in :class:`routing.contract.table.KeyLimits`."""


class FleetFile(msgspec.Struct, frozen=True, kw_only=True):
    """One fleet file, checked: names are unique, every hardware class and device named exists, and what
    replicas hold fits on their devices."""

    version: int = FILE_VERSION
    hardware: list[HardwareEntry] = []
    accelerators: list[AcceleratorSpec] = []
    fleets: list[FleetEntry] = []
    client_keys: list[ClientKeyEntry] = []
    keys_required: bool | None = None
    """Whether every request needs a client key, also where none is listed. ``None``: where any is listed; a
    proxy that runs goes on requiring them when the last one leaves the file."""
