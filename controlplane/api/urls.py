"""Addresses under ``/api/v1/``. No trailing slashes."""

from django.urls import path

from controlplane.api.accelerators import AcceleratorDetail, AcceleratorList
from controlplane.api.alerts import (
    AlertCounts,
    AlertDestinationDetail,
    AlertDestinationList,
    AlertDestinationTest,
    AlertList,
    AlertRuleDetail,
    AlertRuleList,
    AlertSilenceDetail,
    AlertSilenceList,
)
from controlplane.api.audit import AuditList
from controlplane.api.client_keys import ClientKeyDetail, ClientKeyList, ClientKeySettings
from controlplane.api.docs import Docs, Schema
from controlplane.api.drains import Drains
from controlplane.api.events import EventList
from controlplane.api.exporters import ExporterDetail, ExporterList
from controlplane.api.fleets import FleetDetail, FleetList
from controlplane.api.hardware import HardwareDetail, HardwareList
from controlplane.api.history import ClientKeyHistoryView, FleetHistoryView, ReplicaHistoryView
from controlplane.api.leases import ReplicaLease
from controlplane.api.live_views import (
    ClientKeyLiveView,
    ClientKeysLiveView,
    FleetLiveView,
    OverviewLiveView,
)
from controlplane.api.objectives import FleetObjectivesView
from controlplane.api.policies import PolicyDetail, RevisionDetail, RevisionList, RevisionRestore
from controlplane.api.probes import ReplicaProbes
from controlplane.api.replicas import ReplicaDetail, ReplicaList
from controlplane.api.scaling import FleetScalingView
from controlplane.api.source_trials import SourceTrials
from controlplane.api.sources import SourceDetail, SourceList, SourceResync
from controlplane.api.strategies import StrategyList
from controlplane.api.system import SystemView
from controlplane.api.tokens import TokenDetail, TokenList
from controlplane.api.trial_probes import TrialProbes

urlpatterns = [
    path("fleets", FleetList.as_view(), name="api-fleets"),
    path("fleets/<str:fleet>", FleetDetail.as_view(), name="api-fleet"),
    path("fleets/<str:fleet>/policy", PolicyDetail.as_view(), name="api-policy"),
    path("fleets/<str:fleet>/revisions", RevisionList.as_view(), name="api-revisions"),
    path("fleets/<str:fleet>/revisions/<int:number>", RevisionDetail.as_view(), name="api-revision"),
    path("fleets/<str:fleet>/revisions/<int:number>/restore", RevisionRestore.as_view(), name="api-restore"),
    path("fleets/<str:fleet>/replicas", ReplicaList.as_view(), name="api-replicas"),
    path("fleets/<str:fleet>/replicas/<str:replica>", ReplicaDetail.as_view(), name="api-replica"),
    path(
        "fleets/<str:fleet>/replicas/<str:replica>/probes", ReplicaProbes.as_view(), name="api-replica-probes"
    ),
    path("fleets/<str:fleet>/sources", SourceList.as_view(), name="api-sources"),
    path("fleets/<str:fleet>/sources/<str:source>", SourceDetail.as_view(), name="api-source"),
    path("fleets/<str:fleet>/sources/<str:source>/resync", SourceResync.as_view(), name="api-resync"),
    path("fleets/<str:fleet>/source-trials", SourceTrials.as_view(), name="api-source-trials"),
    path(
        "fleets/<str:fleet>/sources/<str:source>/leases/<str:replica>",
        ReplicaLease.as_view(),
        name="api-lease",
    ),
    path("fleets/<str:fleet>/live", FleetLiveView.as_view(), name="api-fleet-live"),
    path("fleets/<str:fleet>/objectives", FleetObjectivesView.as_view(), name="api-fleet-objectives"),
    path("fleets/<str:fleet>/history", FleetHistoryView.as_view(), name="api-fleet-history"),
    path(
        "fleets/<str:fleet>/replicas/<str:replica>/history",
        ReplicaHistoryView.as_view(),
        name="api-replica-history",
    ),
    path("fleets/<str:fleet>/scaling", FleetScalingView.as_view(), name="api-fleet-scaling"),
    path("live", OverviewLiveView.as_view(), name="api-live"),
    path("hardware-classes", HardwareList.as_view(), name="api-hardware-classes"),
    path("hardware-classes/<str:name>", HardwareDetail.as_view(), name="api-hardware-class"),
    path("exporters", ExporterList.as_view(), name="api-exporters"),
    path("exporters/<str:name>", ExporterDetail.as_view(), name="api-exporter"),
    path("accelerators", AcceleratorList.as_view(), name="api-accelerators"),
    path("accelerators/<path:accelerator>", AcceleratorDetail.as_view(), name="api-accelerator"),
    path("drains", Drains.as_view(), name="api-drains"),
    path("trial-probes", TrialProbes.as_view(), name="api-trial-probes"),
    path("client-keys", ClientKeyList.as_view(), name="api-client-keys"),
    path("client-keys/live", ClientKeysLiveView.as_view(), name="api-client-keys-live"),
    path("client-keys/settings", ClientKeySettings.as_view(), name="api-client-key-settings"),
    path("client-keys/<int:key>/live", ClientKeyLiveView.as_view(), name="api-client-key-live"),
    path("client-keys/<int:key>/history", ClientKeyHistoryView.as_view(), name="api-client-key-history"),
    path("client-keys/<int:key>", ClientKeyDetail.as_view(), name="api-client-key"),
    path("tokens", TokenList.as_view(), name="api-tokens"),
    path("tokens/<int:token>", TokenDetail.as_view(), name="api-token"),
    path("strategies", StrategyList.as_view(), name="api-strategies"),
    path("events", EventList.as_view(), name="api-events"),
    path("alerts", AlertList.as_view(), name="api-alerts"),
    path("alerts/counts", AlertCounts.as_view(), name="api-alert-counts"),
    path("alerts/rules", AlertRuleList.as_view(), name="api-alert-rules"),
    path("alerts/rules/<str:name>", AlertRuleDetail.as_view(), name="api-alert-rule"),
    path("alerts/destinations", AlertDestinationList.as_view(), name="api-alert-destinations"),
    path("alerts/destinations/<str:name>", AlertDestinationDetail.as_view(), name="api-alert-destination"),
    path(
        "alerts/destinations/<str:name>/test",
        AlertDestinationTest.as_view(),
        name="api-alert-destination-test",
    ),
    path("alerts/silences", AlertSilenceList.as_view(), name="api-alert-silences"),
    path("alerts/silences/<int:silence>", AlertSilenceDetail.as_view(), name="api-alert-silence"),
    path("audit", AuditList.as_view(), name="api-audit"),
    path("system", SystemView.as_view(), name="api-system"),
    path("schema", Schema.as_view(), name="schema"),
    path("docs", Docs.as_view(url_name="schema"), name="api-docs"),
]
