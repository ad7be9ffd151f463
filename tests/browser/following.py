"""A process that follows the sources of the site of browser tests, as a conductor does."""

import subprocess
import sys
from pathlib import Path

from tests.browser.site import Site
from tests.proxy_process import ROOT

RUNNER = """
import django; django.setup()
import sys
from controlplane.datastores import redis
from controlplane.discovery.runner import DiscoveryRunner
from controlplane.models import ReplicaHealth
from controlplane.services.health import record_transition
DiscoveryRunner(redis.client(), lambda: True).start()
for line in sys.stdin:
    for row in ReplicaHealth.objects.all():
        record_transition(row.replica_id, row.state, "ready", "200", True)
    print("ready", flush=True)
"""


class Following:
    """A process that follows the site's sources, as a conductor does, and plays the probes."""

    def __init__(self, site: Site) -> None:
        self.folder = Path(site.environment["SWITCHYARD_DATA_DIR"]) / "sources"
        command = [sys.executable, "-c", RUNNER]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.process = subprocess.Popen(command, cwd=ROOT, env=site.environment, text=True, **pipes)

    def all_pass(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(file=self.process.stdin, flush=True)
        assert self.process.stdout.readline() == "ready\n"
