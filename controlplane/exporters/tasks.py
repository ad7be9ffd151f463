"""Celery task that reads all exporters. Safe to lose and to repeat: the next one comes in seconds."""

from celery import shared_task

from controlplane.datastores.redis import client as redis_client
from controlplane.exporters import store
from controlplane.exporters.scrape import LIMIT_S, ScrapedExporter, scrape
from controlplane.models import Exporter

EVERY_S = 10.0
_RUNS = "sy:exporters:runs"


@shared_task(
    name="controlplane.exporters.tasks.read_exporters",
    ignore_result=True,
    soft_time_limit=60,
    time_limit=90,
)
def read_exporters() -> None:
    """One at a time: another that finds it at work leaves it to it."""
    rows = [ScrapedExporter(*row) for row in Exporter.objects.values_list("name", "host", "url")]
    client = redis_client()
    if not rows and not client.exists(store.KEY):
        return
    if not client.set(_RUNS, "1", nx=True, px=int(1000 * (EVERY_S + LIMIT_S))):
        return
    try:
        store.keep(client, scrape(rows), {row.name for row in rows})
    finally:
        client.delete(_RUNS)
