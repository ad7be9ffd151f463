"""Probe settings of a fleet (health checks): a preset and what the fleet changes of it."""

from typing import Literal

import msgspec


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """Probe settings of a fleet. ``None``: as the preset says (:mod:`routing.contract.probe_presets`)."""

    preset: str = "http"
    period_s: float = 2.0
    timeout_s: float | None = None
    rise: int = 2
    """Passes in a row before an unready replica is ready again. The very first pass counts at once."""
    fall: int = 3
    """Failures in a row before a ready replica is unready or down."""
    startup_budget_s: float = 1800.0
    """How long a replica that never passed may stay ``checking`` before it is ``down``."""
    path: str | None = None
    method: Literal["GET", "HEAD", "POST"] | None = None
    body: str | None = None
    accepted_statuses: list[int] | None = None
    body_contains: str | None = None
    load_reports: bool = True
    """Whether the replica's metrics page is read as well, if its preset knows one."""
    metrics_path: str | None = None
    """Path of that page. The preset ``http`` has none unless this is set."""
    metrics_port: int | None = None
    load_header: bool = False
    """Whether requests ask replicas for an ORCA load report in the response header."""
