"""Every number that a process of the control plane counts, by the process that counts it.

Names and units follow Prometheus: base units, ``_total`` on counters. No label ever holds what a client
made up: routes are those of the URL tables, methods and outcomes are from closed lists, tasks are the code's.
"""

from collections.abc import Iterator

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.registry import Collector

from controlplane.observability.process import ProcessRole, this_process
from routing.contract.version import VERSION

disable_created_metrics()  # type: ignore[no-untyped-call]

QUICK_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
SLOW_S = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

# --- Web ---
WEB_REQUESTS = Counter(
    "switchyard_web_requests",
    "Requests answered, by route, method and class of status.",
    ["route", "method", "status"],
    registry=None,
)
WEB_DURATION = Histogram(
    "switchyard_web_request_duration_seconds",
    "From the request's arrival at Django to its response.",
    ["route"],
    buckets=QUICK_S,
    registry=None,
)
WEB_IN_FLIGHT = Gauge("switchyard_web_requests_in_flight", "Requests in flight.", registry=None)
SOCKETS_OPEN = Gauge("switchyard_web_sockets_open", "WebSockets open now.", ["route"], registry=None)
SOCKETS_OPENED = Counter("switchyard_web_sockets_opened", "WebSockets opened.", ["route"], registry=None)

# --- Whoever writes ---
PUBLISHES = Counter(
    "switchyard_publishes",
    "Tables sent to Redis after a write: stored, redis_away (the conductor stores it later), or refused "
    "(this Redis is another installation's).",
    ["outcome"],
    registry=None,
)

# --- Celery worker ---
TASKS = Counter(
    "switchyard_tasks",
    "Tasks finished, by name and outcome: success, failure, retry, revoked or rejected.",
    ["task", "outcome"],
    registry=None,
)
TASK_DURATION = Histogram(
    "switchyard_task_duration_seconds",
    "Duration of a task.",
    ["task"],
    buckets=SLOW_S,
    registry=None,
)
TASKS_IN_FLIGHT = Gauge("switchyard_tasks_in_flight", "Tasks running now.", registry=None)
PROBE_LATENESS = Histogram(
    "switchyard_probe_lateness_seconds",
    "How late a probe began, compared with when it was due.",
    buckets=SLOW_S,
    registry=None,
)
LOAD_PAGES = Counter(
    "switchyard_load_pages",
    "Metrics pages requested from replicas, by outcome: `figures` (parsed) or `nothing`.",
    ["outcome"],
    registry=None,
)

# --- Beat ---
BEAT_TICKS = Counter("switchyard_beat_ticks", "Iterations of the scheduler's loop.", registry=None)
BEAT_SENT = Counter(
    "switchyard_beat_tasks_sent",
    "Tasks due, by name and outcome: sent to the queue, skipped (too many wait there) or failed.",
    ["task", "outcome"],
    registry=None,
)

# --- Conductor ---
LEADER = Gauge("switchyard_conductor_leader", "1 while this conductor is the leader.", registry=None)
CONDUCTOR_TICKS = Counter("switchyard_conductor_ticks", "Ticks done, as leader or standby.", registry=None)
TICK_DURATION = Histogram(
    "switchyard_conductor_tick_duration_seconds", "Duration of one tick.", buckets=QUICK_S, registry=None
)
MERGE_DURATION = Histogram(
    "switchyard_conductor_merge_duration_seconds",
    "Time to merge the reports of all proxy workers.",
    buckets=(0.0005, 0.001, 0.0025, *QUICK_S),
    registry=None,
)
FRAMES = Counter("switchyard_conductor_frames_sent", "Frames sent to open pages.", registry=None)
REPAIRS = Counter(
    "switchyard_conductor_repairs",
    "Table messages that were missing from Redis and were stored again.",
    registry=None,
)
REFUSED = Gauge(
    "switchyard_conductor_refused",
    "1 while this conductor may not lead: Redis is another installation's.",
    registry=None,
)
DESIRED_REPLICAS = Gauge(
    "switchyard_desired_replicas",
    "Replicas that a fleet needs, by the leading conductor; no sample where that cannot be told.",
    ["fleet"],
    registry=None,
)
WORKERS_HEARD = Gauge(
    "switchyard_conductor_proxy_workers", "Proxy workers whose reports are fresh.", registry=None
)
SOURCES_FOLLOWED = Gauge(
    "switchyard_sources_followed", "Sources of replicas that this conductor follows.", registry=None
)
SOURCE_LISTS = Counter(
    "switchyard_source_lists",
    "Lists asked of sources, by outcome: listed or failed.",
    ["outcome"],
    registry=None,
)

OF_ROLE: dict[ProcessRole, list[MetricWrapperBase]] = {
    "web": [WEB_REQUESTS, WEB_DURATION, WEB_IN_FLIGHT, SOCKETS_OPEN, SOCKETS_OPENED, PUBLISHES],
    "worker": [TASKS, TASK_DURATION, TASKS_IN_FLIGHT, PROBE_LATENESS, LOAD_PAGES, PUBLISHES],
    "beat": [BEAT_TICKS, BEAT_SENT],
    "conductor": [
        LEADER,
        CONDUCTOR_TICKS,
        TICK_DURATION,
        MERGE_DURATION,
        FRAMES,
        REPAIRS,
        REFUSED,
        WORKERS_HEARD,
        DESIRED_REPLICAS,
        SOURCES_FOLLOWED,
        SOURCE_LISTS,
        PUBLISHES,
    ],
    "manage": [],
}


class ProcessStateCollector(Collector):
    """What every process says of itself."""

    def collect(self) -> Iterator[GaugeMetricFamily]:
        build = GaugeMetricFamily(
            "switchyard_build_info", "1, with the software's version.", labels=["version", "process"]
        )
        build.add_metric([VERSION, this_process.role], 1)
        yield build
        yield GaugeMetricFamily(
            "switchyard_loop_age_seconds",
            "Since this process's main loop last ran.",
            this_process.loop_heartbeat.age_s,
        )
        yield GaugeMetricFamily(
            "switchyard_uptime_seconds", "Since the process started.", this_process.uptime_s
        )


def registry(role: ProcessRole, *collectors: Collector) -> CollectorRegistry:
    """All that a process of this role exposes."""
    found = CollectorRegistry()
    ProcessCollector(registry=found)
    for each in (ProcessStateCollector(), *OF_ROLE[role], *collectors):
        found.register(each)
    return found


def exposition(found: CollectorRegistry) -> bytes:
    """Prometheus' text format, version 0.0.4."""
    return generate_latest(found)
