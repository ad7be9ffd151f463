"""Writes the Grafana dashboards beside this file: ``python deploy/grafana/make_dashboards.py``.

A dashboard is rows of panels, each panel a title, a unit and queries. Percentiles are of summed buckets,
never averages of percentiles. A test compares the files with what this writes.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parent / "dashboards"
SOURCE = {"type": "prometheus", "uid": "${source}"}
WIDTH, HEIGHT = 24, 8


class Panel(NamedTuple):
    title: str
    unit: str
    """Grafana's name: ``s``, ``reqps``, ``percentunit``, ``short`` …"""
    queries: dict[str, str]
    """Legend → expression."""
    about: str = ""


def quantiles(metric: str, by: str = "fleet") -> dict[str, str]:
    return {
        f"{{{{{by}}}}} p{percent}": f"histogram_quantile(0.{percent}, "
        f'sum by (le, {by}) (rate({metric}_bucket{{fleet=~"$fleet"}}[$__rate_interval])))'
        for percent in (50, 95, 99)
    }


def rate(metric: str, by: str, extra: str = "") -> str:
    return f'sum by ({by}) (rate({metric}{{fleet=~"$fleet"{extra}}}[$__rate_interval]))'


FLEETS = {
    "What clients get": [
        Panel(
            "Requests",
            "reqps",
            {
                "{{fleet}} {{result}}": rate("switchyard_ended_requests_total", "fleet, result"),
            },
            "Requests that have ended, by result.",
        ),
        Panel(
            "Errors by reason",
            "reqps",
            {"{{fleet}} {{reason}}": rate("switchyard_errors_by_reason_total", "fleet, reason")},
        ),
        Panel("Latency", "s", quantiles("switchyard_request_duration_seconds")),
        Panel("Time to first token", "s", quantiles("switchyard_first_token_duration_seconds")),
        Panel("Time between tokens", "s", quantiles("switchyard_between_tokens_duration_seconds")),
        Panel(
            "Tokens",
            "short",
            {
                "{{fleet}} in": rate("switchyard_input_tokens_total", "fleet"),
                "{{fleet}} out": rate("switchyard_output_tokens_total", "fleet"),
            },
            "Tokens a second of prompts and of answers, when they have ended.",
        ),
    ],
    "Objectives": [
        Panel(
            "Met, last hour",
            "percentunit",
            {
                "{{fleet}} {{objective}}": "sum by (fleet, objective) "
                '(increase(switchyard_objective_good_total{fleet=~"$fleet"}[1h])) / '
                "(sum by (fleet, objective) "
                '(increase(switchyard_objective_requests_total{fleet=~"$fleet"}[1h])) > 0)'
            },
        ),
        Panel(
            "Retries",
            "reqps",
            {"{{fleet}}": rate("switchyard_retries_total", "fleet")},
        ),
    ],
    "Queue": [
        Panel(
            "Waiting",
            "short",
            {
                "{{fleet}}": 'sum by (fleet) (switchyard_queue_waiting{fleet=~"$fleet"})',
                "{{fleet}} in flight": 'sum by (fleet) (switchyard_requests_in_flight{fleet=~"$fleet"})',
            },
        ),
        Panel("Wait", "s", quantiles("switchyard_queue_wait_duration_seconds")),
        Panel(
            "Refused",
            "reqps",
            {
                "{{fleet}} full": rate("switchyard_queue_full_total", "fleet"),
                "{{fleet}} late": rate("switchyard_queue_late_total", "fleet"),
                "{{fleet}} no replica": rate("switchyard_no_replica_total", "fleet"),
            },
        ),
    ],
    "Replicas": [
        Panel(
            "Eligible",
            "short",
            {
                "{{fleet}}": "sum by (fleet) (max by (fleet, replica) "
                '(switchyard_replica_eligible{fleet=~"$fleet"}))',
            },
        ),
        Panel(
            "Attempts",
            "reqps",
            {"{{fleet}} {{replica}}": rate("switchyard_replica_picked_total", "fleet, replica")},
        ),
        Panel(
            "Failed attempts by outcome",
            "reqps",
            {
                "{{fleet}} {{replica}} {{outcome}}": rate(
                    "switchyard_replica_failed_by_total", "fleet, replica, outcome"
                )
            },
        ),
        Panel(
            "In flight",
            "short",
            {
                "{{fleet}} {{replica}}": "sum by (fleet, replica) "
                '(switchyard_replica_in_flight{fleet=~"$fleet"})'
            },
        ),
        Panel(
            "KV cache in use",
            "percentunit",
            {
                "{{fleet}} {{replica}}": "max by (fleet, replica) "
                '(switchyard_replica_reported_kv_share{fleet=~"$fleet"})'
            },
            "As replicas report it.",
        ),
        Panel(
            "Ejections",
            "short",
            {
                "{{fleet}} {{replica}}": "sum by (fleet, replica) "
                '(increase(switchyard_replica_ejections_total{fleet=~"$fleet"}[$__rate_interval]))'
            },
        ),
    ],
}
PARTS = {
    "Proxies": [
        Panel("Workers that serve", "short", {"{{instance}}": "sum by (instance) (switchyard_worker_up)"}),
        Panel(
            "CPU",
            "short",
            {"{{instance}}": "sum by (instance) (rate(switchyard_cpu_seconds_total[$__rate_interval]))"},
            "Cores, of all workers.",
        ),
        Panel(
            "Connections",
            "short",
            {
                "{{instance}} clients": "sum by (instance) (switchyard_client_connections)",
                "{{instance}} replicas": "sum by (instance) (switchyard_upstream_connections)",
            },
        ),
        Panel("Age of the table", "s", {"{{instance}}": "max by (instance) (switchyard_table_age_seconds)"}),
        Panel(
            "Refused before a fleet was found",
            "reqps",
            {
                "{{instance}}": "sum by (instance) "
                "(rate(switchyard_rejected_requests_total[$__rate_interval]))",
            },
        ),
        Panel(
            "Resident memory",
            "bytes",
            {
                "{{instance}} worker {{worker}}": "max by (instance, worker) "
                "(switchyard_worker_resident_memory_bytes)"
            },
        ),
    ],
    "Control plane": [
        Panel(
            "Conductor's tick",
            "s",
            {
                f"p{percent}": f"histogram_quantile(0.{percent}, sum by (le) "
                "(rate(switchyard_conductor_tick_duration_seconds_bucket[$__rate_interval])))"
                for percent in (50, 99)
            },
        ),
        Panel("Lag of probes", "s", {"lag": "max(switchyard_probe_lag_seconds)"}),
        Panel("Tasks that wait", "short", {"tasks": "max(switchyard_task_queue_length)"}),
        Panel(
            "API and pages",
            "s",
            {
                "p99": "histogram_quantile(0.99, sum by (le) "
                "(rate(switchyard_web_request_duration_seconds_bucket[$__rate_interval])))"
            },
        ),
        Panel(
            "Publishes",
            "ops",
            {"{{outcome}}": "sum by (outcome) (rate(switchyard_publishes_total[$__rate_interval]))"},
        ),
        Panel(
            "Age of each main loop", "s", {"{{instance}}": "max by (instance) (switchyard_loop_age_seconds)"}
        ),
    ],
}


def dashboard(uid: str, title: str, rows: dict[str, list[Panel]], *, by_fleet: bool) -> dict[str, Any]:
    """As Grafana 10 and later read it."""
    panels: list[dict[str, Any]] = []
    y = 0
    for name, members in rows.items():
        panels.append(
            {
                "id": len(panels) + 1,
                "type": "row",
                "title": name,
                "collapsed": False,
                "gridPos": {"h": 1, "w": WIDTH, "x": 0, "y": y},
                "panels": [],
            }
        )
        y += 1
        across = 3 if len(members) % 3 == 0 else 2
        for at, panel in enumerate(members):
            width = WIDTH // across
            place = {"h": HEIGHT, "w": width, "x": at % across * width, "y": y + at // across * HEIGHT}
            panels.append(_panel(panel, len(panels) + 1, place))
        y += -(-len(members) // across) * HEIGHT
    variables: list[dict[str, Any]] = [
        {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
    ]
    if by_fleet:
        query = "label_values(switchyard_requests_total, fleet)"
        variables.append(
            {
                "name": "fleet",
                "label": "Fleet",
                "type": "query",
                "datasource": SOURCE,
                "query": {"query": query, "refId": "fleets"},
                "definition": query,
                "multi": True,
                "includeAll": True,
                "allValue": ".*",
                "current": {"text": "All", "value": "$__all"},
                "refresh": 2,
                "sort": 1,
            }
        )
    return {
        "uid": uid,
        "title": title,
        "tags": ["switchyard"],
        "schemaVersion": 38,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "graphTooltip": 1,
        "templating": {"list": variables},
        "panels": panels,
    }


def _panel(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.about,
        "datasource": SOURCE,
        "gridPos": place,
        "fieldConfig": {
            "defaults": {
                "unit": panel.unit,
                "min": 0,
                "custom": {"lineWidth": 1, "fillOpacity": 0, "showPoints": "never", "spanNulls": False},
            },
            "overrides": [],
        },
        "options": {
            "legend": {"displayMode": "table", "placement": "bottom", "calcs": ["lastNotNull", "max"]},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
        "targets": [
            {"refId": chr(ord("A") + at), "datasource": SOURCE, "expr": expression, "legendFormat": legend}
            for at, (legend, expression) in enumerate(panel.queries.items())
        ],
    }


def files() -> dict[str, str]:
    """Name → content."""
    made = {
        "fleets.json": dashboard("switchyard-fleets", "Switchyard: fleets", FLEETS, by_fleet=True),
        "parts.json": dashboard(
            "switchyard-parts", "Switchyard: proxies and control plane", PARTS, by_fleet=False
        ),
    }
    return {name: json.dumps(content, indent=2) + "\n" for name, content in made.items()}


def main() -> None:
    for name, text in files().items():
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    main()
