"""The nouns of the control plane, one file each. Writes go through :mod:`controlplane.services`."""

from controlplane.models.accelerator import Accelerator
from controlplane.models.alert import Alert
from controlplane.models.alert_destination import AlertDelivery, AlertDestination, AlertTold
from controlplane.models.alert_rule import AlertRule
from controlplane.models.alert_silence import AlertSilence
from controlplane.models.audit import AuditEntry
from controlplane.models.client_key import ClientKey
from controlplane.models.discovery_source import (
    DiscoverySource,
    DiscoverySourceStatus,
    ReplicaOwner,
    SourceState,
)
from controlplane.models.event import Event
from controlplane.models.exporter import Exporter
from controlplane.models.fleet import Fleet
from controlplane.models.fleet_history import FleetHistory
from controlplane.models.forced_password_change import ForcedPasswordChange
from controlplane.models.hardware import HardwareClass
from controlplane.models.objective_count import ObjectiveCount
from controlplane.models.replica import Replica
from controlplane.models.replica_health import ReplicaHealth
from controlplane.models.revision import PolicyRevision
from controlplane.models.role_grant import RoleGrant
from controlplane.models.table_state import TableState
from controlplane.models.token import ApiToken

__all__ = [
    "Accelerator",
    "Alert",
    "AlertDelivery",
    "AlertDestination",
    "AlertRule",
    "AlertSilence",
    "AlertTold",
    "ApiToken",
    "AuditEntry",
    "ClientKey",
    "DiscoverySource",
    "DiscoverySourceStatus",
    "Event",
    "Exporter",
    "Fleet",
    "FleetHistory",
    "ForcedPasswordChange",
    "HardwareClass",
    "ObjectiveCount",
    "PolicyRevision",
    "Replica",
    "ReplicaHealth",
    "ReplicaOwner",
    "RoleGrant",
    "SourceState",
    "TableState",
]
