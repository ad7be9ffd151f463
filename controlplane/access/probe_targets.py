"""Probe targets: what of a server a fleet's probe requests, as far as its settings choose it.

Probes are sent to each replica, whatever ``expose`` says. So on a host of others, settings that choose the
request reach what clients may not, and a port of the metrics page reaches another server of that host. Pure.
"""

from collections.abc import Mapping
from typing import Any

from routing.contract.metrics_pages import PAGES

CUSTOM = ("path", "method", "body", "metrics_path")
"""Fields that choose a request. Not set, it is the preset's, which does no harm."""
_HTTP = "http"


def probe_after(stored: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """A fleet's probe as it will be with settings as the API is sent them, which may be invalid."""
    if "probe" not in settings:
        return dict(stored)
    sent = settings["probe"] if isinstance(settings["probe"], Mapping) else None
    if sent is None or (sent.get("preset", _HTTP) != stored.get("preset", _HTTP) and "preset" in sent):
        stored = {}  # another preset keeps none of the fields that are looked at here
    return {name: value for name, value in {**stored, **(sent or {})}.items() if value is not None}


def metrics_port(probe: Mapping[str, Any]) -> int | None:
    """``None``: the replica's own, or none that is valid."""
    port = probe.get("metrics_port")
    if port is None and isinstance(preset := probe.get("preset"), str) and preset in PAGES:
        port = PAGES[preset].port
    return port if isinstance(port, int) else None
