"""``manage.py conductor``: merges telemetry, sends frames, reconciles the table, writes events, follows
sources of replicas.

Start as many as you like; one leads, and another takes over within 5 s.
"""

import logging
import os
import socket
from typing import Any

from django.core.management.base import CommandError

from controlplane.alerts import evaluation_thread
from controlplane.datastores import redis, sqlite_log
from controlplane.discovery.runner import DiscoveryRunner
from controlplane.management.base import SwitchyardCommand
from controlplane.observability import metrics_listener, process_heartbeats, watchdog
from controlplane.observability.process import this_process
from controlplane.publishing import installation, redis_owner
from controlplane.publishing.installation import NotOurRedis
from controlplane.telemetry.conductor import Conductor
from controlplane.telemetry.runner import run

logger = logging.getLogger(__name__)


class Command(SwitchyardCommand):
    requires_system_checks: list[str] = []  # a conductor serves no pages
    help = (
        "Merges telemetry once a second, sends it to open pages, keeps Redis in step with the database, and "
        "follows the sources of replicas."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        name = f"{socket.gethostname()}/{os.getpid()}"
        this_process.set_role("conductor")
        try:
            installation.check_at_start()
        except NotOurRedis as refused:
            raise CommandError(str(refused)) from refused
        redis_owner.watch()
        metrics_listener.start()
        process_heartbeats.start()
        watchdog.start()
        sqlite_log.hold_open()
        logger.info("conductor %s started", name)
        conductor = Conductor(redis.client(), name)
        evaluation_thread.start(lambda: conductor.leads)
        discovery = DiscoveryRunner(redis.client(), lambda: conductor.leads)
        discovery.start()
        run(conductor)
        discovery.stop()
        logger.info("conductor %s ended", name)
