"""The Celery app: ``celery -A controlplane.celery worker`` and ``… beat``."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")

app = Celery("switchyard")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(["controlplane.probes", "controlplane.retention"])
