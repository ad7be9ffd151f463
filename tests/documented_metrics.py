"""What each process exposes, as rows of ``docs/metrics.md``: name, kind, labels, words.

    python -m tests.documented_metrics

prints the rows of all tables, after a change of a metric.
"""

import os
import re
from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).resolve().parent.parent / "docs" / "metrics.md"
ROW = re.compile(r"^\| `(\w+)` \| (\w+) \| (.*?) \| (.*) \|$", re.M)


class Row(NamedTuple):
    name: str
    """As a query says it: with ``_total`` where it is a counter, without ``_bucket``."""
    kind: str
    labels: str
    words: str

    def __str__(self) -> str:
        return f"| `{self.name}` | {self.kind} | {self.labels} | {self.words} |"


def on_page(process: str) -> list[Row]:
    """Rows of the table under the heading of this process."""
    section = PAGE.read_text().partition(f"\n## {process}\n")[2].partition("\n## ")[0]
    return [Row(*found) for found in ROW.findall(section)]


def of_text(text: str) -> list[Row]:
    """Families of an exposition that has a sample of each, by name."""
    helps = dict(re.findall(r"^# HELP (\S+) (.*)$", text, re.M))
    kinds = dict(re.findall(r"^# TYPE (\S+) (.*)$", text, re.M))
    rows = []
    for name, kind in kinds.items():
        sample = re.search(rf"^{name}(?:_bucket|_total)?(?:{{(.*?)}})? ", text, re.M)
        labels = re.findall(r'(\w+)="', sample[1]) if sample and sample[1] else []
        rows.append(Row(name, kind, ", ".join(label for label in labels if label != "le"), helps[name]))
    return sorted(rows)


def of_proxy() -> list[Row]:
    from routing.contract.ended_requests import EndedRequests
    from routing.contract.load_report import ReportedLoad
    from routing.contract.table import AcceleratorSpec, FleetSnapshot, ReplicaSpec
    from routing.contract.telemetry import FleetCounters, KeyCounters, ReplicaCounters, WorkerReport
    from routing.master.admin.aggregate import RetiredCounters
    from routing.master.admin.certificate_status import CertificateStatus
    from routing.master.admin.export_status import ExportStatus
    from routing.master.admin.kv_event_status import KvEventStatus
    from routing.master.admin.metrics import WorkerStatus, render

    load = ReportedLoad(running=1, waiting=1, kv_share=0.5)
    replica = ReplicaCounters(uid="u", name="a", reported=load, failed_by={"lost": 1})
    fleet = FleetCounters(name="echo", replicas=[replica], not_continued={"memory": 1})
    fleet.second_attempts, fleet.not_sent_twice = {"won": 1}, {"budget": 1}
    fleet.fallbacks, fleet.no_fallback = {"other": {"no_place": 1}}, {"budget": 1}
    fleet.ended = EndedRequests(served=1, errors={"timeout": 1})
    key = KeyCounters(id="web", limited_by={"max_concurrency": 1})
    report = WorkerReport(worker="w", incarnation=1, sequence=1, fleets=[fleet], keys=[key])
    view = WorkerStatus(0, os.getpid(), True, 0, report, 0.5)
    spec = ReplicaSpec(uid="u", name="a", url="http://10.0.0.1")
    table = FleetSnapshot(epoch=1, version=1, revision=1, name="echo", protocol="generic", replicas=[spec])
    device = AcceleratorSpec(name="n1/gpu0", memory_bytes=1)
    certificate = CertificateStatus(1.8e9, "00", "", "")
    return of_text(
        render(
            [view],
            RetiredCounters(),
            False,
            [table],
            {("echo", "a"): 60.0},
            certificate,
            [device],
            kv_events=[KvEventStatus("echo", "a", "heard", "", 0.5, 16, 60.0, 1, 0)],
            traces=ExportStatus("http://127.0.0.1:4318/v1/traces", "up", "", 1.0, 1, 1, {"queue": 1}, 1),
        ).decode()
    )


def of_role(role: str) -> list[Row]:
    """Of a process of the control plane. Django is set up."""
    from prometheus_client.metrics import MetricWrapperBase

    from controlplane.celery_monitoring.queue_metrics import QueueCollector
    from controlplane.observability import metrics

    rows = []
    waiting = list(QueueCollector().describe()) if role == "worker" else []
    for each in [*metrics.OF_ROLE[role], *metrics.ProcessStateCollector().collect(), *waiting]:  # type: ignore[index]
        (family,) = each.describe() if isinstance(each, MetricWrapperBase) else (each,)
        labels = each._labelnames if isinstance(each, MetricWrapperBase) else tuple(family.samples[0].labels)
        name = f"{family.name}_total" if family.type == "counter" else family.name
        rows.append(Row(name, family.type, ", ".join(labels), family.documentation))
    return sorted(rows)


ROLES = {
    "web": "The web process",
    "worker": "The Celery worker",
    "beat": "Beat",
    "conductor": "The conductor",
}


def main() -> None:
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
    django.setup()
    for title, rows in {"The proxy": of_proxy(), **{t: of_role(r) for r, t in ROLES.items()}}.items():
        print(f"\n## {title}\n\n| name | kind | labels | meaning |\n| --- | --- | --- | --- |")
        print("\n".join(map(str, rows)))


if __name__ == "__main__":
    main()
