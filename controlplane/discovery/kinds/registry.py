"""Registry of kinds: a source's settings → what lists it."""

from collections.abc import Mapping
from typing import Any

from django.conf import settings as django_settings

from controlplane.discovery.kinds.kind import SourceKind
from controlplane.discovery.kinds.watched_file import WatchedFile
from controlplane.services import source_rules


def build(settings: Mapping[str, Any]) -> SourceKind:
    """``settings``: as checked by :mod:`controlplane.services.source_rules`."""
    kind, template = source_rules.kind_of(settings), settings.get("replica", {})
    own = settings[kind]
    if kind == "file":
        return WatchedFile(django_settings.SOURCES_DIR, own["path"], template)
    raise ValueError(f"no kind {kind}")
