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
    flap_damping: bool = True
    """Whether a replica that was lost several times lately needs more passes than ``rise``
    (:mod:`routing.contract.flap_damping`)."""
    headers: list[str] = msgspec.field(default_factory=list)
    """Fields that each request of a probe has as well, ``Name: value``."""
    inference: Literal["chat", "completions", "embeddings", "v2"] | None = None
    """What kind of real request follows a probe that has passed
    (:mod:`routing.contract.inference_probe`); ``None``: none."""
    inference_body: str | None = None
    inference_period_s: float = 30.0
    """While it is ready. While it is not, each probe that has passed is followed by one."""
    inference_timeout_s: float = 10.0
    warm_up: int = 0
    """Inference requests answered in a row before its first traffic; 0: one, if there are any."""
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
