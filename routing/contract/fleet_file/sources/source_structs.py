"""Structs of discovery sources: what lists replicas of a fleet, as typed values, with their defaults."""

from typing import Any, Literal

import msgspec

Scheme = Literal["http", "https"]


class FileSettings(msgspec.Struct, frozen=True, kw_only=True):
    """A watched file with a list of replicas."""

    path: str
    """Below the folder of sources."""


class LeaseSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Replicas that register themselves."""

    allow: list[str]
    """Networks, addresses, host names, or ``*.`` and a suffix."""
    ttl_s: float = 30.0


class DnsSettings(msgspec.Struct, frozen=True, kw_only=True):
    """A name in DNS."""

    name: str
    type: Literal["a", "srv"] = "a"
    port: int | None = None
    """``None``: that of the scheme."""
    scheme: Scheme = "http"
    path_prefix: str = ""
    nameservers: list[str] = []
    """Empty: those of the host that asks."""


class KubernetesSettings(msgspec.Struct, frozen=True, kw_only=True):
    """A service in Kubernetes."""

    namespace: str
    service: str
    port: str = ""
    """Name or number; empty: the only one that the service has."""
    scheme: Scheme = "http"
    path_prefix: str = ""
    labels: dict[str, str] = {}
    """``hardware``, ``site``, ``version`` → the label that says it."""


class SourceEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One source. Of ``file``, ``lease``, ``dns`` and ``kubernetes`` exactly one is there: its kind."""

    name: str
    file: FileSettings | None = None
    lease: LeaseSettings | None = None
    dns: DnsSettings | None = None
    kubernetes: KubernetesSettings | None = None
    replica: dict[str, Any] = {}
    """Settings of every replica that it lists, as those of a replica."""
    resync_s: float = 2.0
    paused: bool = False
    """Not followed: its replicas stay as they are."""
