"""Registry of kinds: a source's settings → what lists it."""

from django.conf import settings as django_settings

from controlplane.datastores import redis
from controlplane.discovery.kinds.dns_records import DnsRecords
from controlplane.discovery.kinds.kind import SourceKind
from controlplane.discovery.kinds.kubernetes import ClusterAccess, KubernetesService
from controlplane.discovery.kinds.lease_list import LeaseList
from controlplane.discovery.kinds.watched_file import WatchedFile
from controlplane.models import DiscoverySource
from routing.contract.fleet_file.sources import source_rules


def build(source: DiscoverySource) -> SourceKind:
    settings = source_rules.effective(source.settings)
    own, template = settings[source.kind], settings["replica"]
    if source.kind == "file":
        return WatchedFile(django_settings.SOURCES_DIR, own["path"], template)
    if source.kind == "lease":
        return LeaseList(redis.client(), str(source.uid), own["ttl_s"], template)
    if source.kind == "dns":
        return DnsRecords(own, template)
    if source.kind == "kubernetes":
        access = ClusterAccess(
            django_settings.KUBERNETES_URL,
            django_settings.KUBERNETES_TOKEN_FILE,
            django_settings.KUBERNETES_CA_FILE,
        )
        return KubernetesService(access, own, template)
    raise ValueError(f"no kind {source.kind}")
