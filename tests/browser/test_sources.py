"""Sources on the fleet's page: who put a replica there, how sources are, what stays without their word."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.site import Site
from tests.proxy_process import ROOT

pytestmark = pytest.mark.browser

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


@pytest.fixture
def following(site: Site) -> Iterator[Following]:
    following = Following(site)
    yield following
    following.process.communicate(timeout=20)


def test_owners_and_sources_say_what_stays_without_a_word(
    open_page: Callable[..., Page], new_fleet: Callable[..., str], site: Site, following: Following
) -> None:
    def write(*names: str) -> None:
        listed = [{"name": name, "url": f"http://127.0.0.1:{9300 + ord(name)}"} for name in names]
        (following.folder / "new").write_text(json.dumps(listed))
        (following.folder / "new").rename(following.folder / "rack.json")

    write("b", "c", "d")
    name = new_fleet(("a",))
    source = {"name": "rack", "file": {"path": "rack.json"}, "resync_s": 1}
    site.api("POST", f"/fleets/{name}/sources", source)
    page = open_page(f"/fleets/{name}")
    panel = page.locator('[data-source="rack"]')
    expect(panel).to_contain_text("followed")
    expect(panel).to_contain_text("the fleet has what it lists")
    following.all_pass()
    rows = {each: page.locator(f'[data-replica="{each}"]') for each in "abc"}
    expect(rows["b"]).to_contain_text("from rack")
    expect(rows["a"]).not_to_contain_text("from rack")

    rows["b"].get_by_role("button", name="Edit b").click()
    form = page.get_by_role("form", name="Edit b")
    expect(form).to_contain_text("Source rack (file) put it there and says what it is")
    expect(form.get_by_role("button", name="Remove …")).to_have_count(0)
    page.keyboard.press("Escape")

    write("b")
    expect(panel).to_contain_text("frozen")
    expect(panel.locator('[data-label="Frozen"]')).to_contain_text("2for")
    expect(rows["c"].locator("[data-frozen]")).to_contain_text("rack · frozen")
    (following.folder / "rack.json").unlink()
    expect(panel).to_contain_text("there is no file rack.json")
    expect(rows["b"].locator("[data-frozen]")).to_have_attribute(
        "title", re.compile(r"It has not answered for .* s: the replica stays")
    )
