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
    """Whether the replica's own page of its load is read as well, where its preset has one."""
    metrics_path: str | None = None
    """Where that page is; with the preset ``http`` there is none unless this is set."""
    metrics_port: int | None = None
    load_header: bool = False
    """Whether requests ask replicas for their load in the answer's head."""
