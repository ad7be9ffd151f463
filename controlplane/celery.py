"""The Celery app: ``celery -A controlplane.celery worker`` and ``… beat``."""

import os
from typing import Any

from celery import Celery, signals

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")

app = Celery("switchyard")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(
    [
        "controlplane.alerts",
        "controlplane.exporters",
        "controlplane.probes",
        "controlplane.retention",
        "controlplane.telemetry",
    ]
)


@signals.setup_logging.connect
def _logging_is_set_up(**_: Any) -> None:
    """Django's LOGGING holds here too: with a receiver of this signal Celery leaves the loggers alone."""
