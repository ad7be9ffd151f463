"""docs/proxy.md names every flag and every metric there is."""

import re

import pytest

from routing.admin.metrics import WorkerView, render
from routing.admin.report_sums import Totals
from routing.contract.telemetry import FleetCounters, ReplicaCounters, WorkerReport
from routing.parent.options import parse
from tests.server.rig import ROOT

PAGE = (ROOT / "docs" / "proxy.md").read_text()


def test_every_flag_is_documented(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--help"])
    flags = set(re.findall(r"--[a-z-]+", capsys.readouterr().out)) - {"--help"}
    documented = set(re.findall(r"^\| `(--[a-z-]+)", PAGE, re.M))
    assert len(flags) > 10
    assert flags == documented


def test_every_metric_is_documented() -> None:
    fleet = FleetCounters(name="echo", replicas=[ReplicaCounters(uid="u", name="a")])
    report = WorkerReport(worker="w", incarnation=1, sequence=1, fleets=[fleet])
    page = render([WorkerView(0, 1, True, 0, report)], Totals(), False).decode()
    families = {name.removeprefix("switchyard_") for name in re.findall(r"^# TYPE (\S+)", page, re.M)}
    documented = set(re.findall(r"`([a-z_]+)`", PAGE.partition("### Metrics")[2])) - {"switchyard_"}
    assert families == documented
