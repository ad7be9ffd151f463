"""Registry of kinds: a source's settings → what lists it."""

from django.conf import settings

from controlplane.datastores import redis
from controlplane.discovery.kinds.kind import SourceKind
from controlplane.discovery.kinds.lease_list import LeaseList
from controlplane.discovery.kinds.watched_file import WatchedFile
from controlplane.models import DiscoverySource
from controlplane.services import source_rules


def build(source: DiscoverySource) -> SourceKind:
    own, template = source.settings[source.kind], source.settings.get("replica", {})
    if source.kind == "file":
        return WatchedFile(settings.SOURCES_DIR, own["path"], template)
    if source.kind == "lease":
        return LeaseList(redis.client(), str(source.uid), source_rules.ttl_s(own), template)
    raise ValueError(f"no kind {source.kind}")
