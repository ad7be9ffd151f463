"""Grafana dashboards and Prometheus rules of deploy/: valid, and of metrics that exist."""

import importlib.util
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from tests import needs
from tests.documented_metrics import ROLES, Row, of_proxy, of_role

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
GRAFANA, PROMETHEUS = DEPLOY / "grafana", DEPLOY / "prometheus"
RULES = PROMETHEUS / "switchyard.rules.yml"
NAME = re.compile(r"\b((?:switchyard|process)_\w+)")
SELECTOR = re.compile(r"\b((?:switchyard|process)_\w+)\{([^}]*)\}")
GROUPED = re.compile(r"\bby \(([^)]*)\)")
OF_PROMETHEUS = {"instance", "job", "process", "le"}
"""Labels that scraping adds, or buckets have."""


@pytest.fixture(scope="module")
def metrics() -> dict[str, Row]:
    rows = [*of_proxy(), *(row for role in ROLES for row in of_role(role))]
    return {row.name: row for row in rows}


@pytest.fixture(scope="module")
def made() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_dashboards", GRAFANA / "make_dashboards.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def dashboards() -> dict[str, Any]:
    return {path.name: json.loads(path.read_text()) for path in sorted((GRAFANA / "dashboards").iterdir())}


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def expressions() -> Iterator[tuple[str, str]]:
    for name, board in dashboards().items():
        for panel in board["panels"]:
            yield from ((f"{name}: {panel['title']}", one["expr"]) for one in panel.get("targets", ()))
    for rule in rules():
        yield rule.get("alert") or rule["record"], rule["expr"]


def known(name: str, metrics: dict[str, Row]) -> Row:
    """A query names what a histogram is made of."""
    for suffix in ("_bucket", "_sum", "_count"):
        base = name.removesuffix(suffix)
        if base != name and base in metrics and metrics[base].kind == "histogram":
            return metrics[base]
    assert name in metrics, f"there is no metric {name}"
    assert metrics[name].kind != "histogram", f"{name} has no value of its own"
    return metrics[name]


def test_every_metric_of_a_query_exists_and_has_its_labels(metrics: dict[str, Row]) -> None:
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    assert recorded, "there are recording rules"
    for where, expression in expressions():
        names = NAME.findall(re.sub(r"switchyard:[\w:]+", "", expression))
        constant = expression.startswith(("vector(", "up{"))
        assert names or constant or any(each in expression for each in recorded), where
        rows = [known(name, metrics) for name in names]
        for name, selector in SELECTOR.findall(expression):
            labels = set(re.findall(r"(\w+)\s*(?:=~|!=|!~|=)", selector))
            assert labels <= set(known(name, metrics).labels.split(", ")), f"{where}: {name}"
        for grouped in GROUPED.findall(expression):
            wanted = {label.strip() for label in grouped.split(",")} - OF_PROMETHEUS
            assert all(wanted <= set(row.labels.split(", ")) for row in rows), f"{where}: by {grouped}"
    for each in re.findall(r"switchyard:[\w:]+", " ".join(text for _, text in expressions())):
        assert each in recorded, each


def test_the_dashboards_are_what_the_program_beside_them_writes(made: ModuleType) -> None:
    files = {path.name: path.read_text() for path in (GRAFANA / "dashboards").iterdir()}
    assert files == made.files(), "run deploy/grafana/make_dashboards.py"


def test_the_dashboards_can_be_provisioned() -> None:
    boards = dashboards()
    assert len({board["uid"] for board in boards.values()}) == len(boards) == 2
    for board in boards.values():
        numbers = [panel["id"] for panel in board["panels"]]
        assert len(set(numbers)) == len(numbers)
        cells = [cell for panel in board["panels"] for cell in _cells(panel["gridPos"])]
        assert len(set(cells)) == len(cells), "no panel lies on another"
        assert max(x for x, _ in cells) < 24
        variables = {one["name"] for one in board["templating"]["list"]}
        used = set(re.findall(r"\$\{?(?!__)(\w+)", json.dumps(board["panels"])))
        assert used <= variables, "each variable is one of the dashboard"
    [provider] = yaml.safe_load((GRAFANA / "provisioning/dashboards/switchyard.yml").read_text())["providers"]
    assert (provider["type"], provider["options"]["path"]) == (
        "file",
        "/var/lib/grafana/dashboards/switchyard",
    )
    [source] = yaml.safe_load((GRAFANA / "provisioning/datasources/prometheus.yml").read_text())[
        "datasources"
    ]
    assert source["type"] == "prometheus"


def _cells(place: dict[str, int]) -> Iterator[tuple[int, int]]:
    for x in range(place["x"], place["x"] + place["w"]):
        for y in range(place["y"], place["y"] + place["h"]):
            yield x, y


def test_each_alert_says_what_it_is_worth_and_what_it_means() -> None:
    alerts = [rule for rule in rules() if "alert" in rule]
    assert len({rule["alert"] for rule in alerts}) == len(alerts)
    for rule in alerts:
        assert rule["labels"]["severity"] in ("page", "ticket"), rule["alert"]
        assert rule["annotations"].keys() == {"summary", "description"}, rule["alert"]


@pytest.mark.long
@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "config", "prometheus.yml"),
        ("check", "rules", "switchyard.rules.yml"),
        ("test", "rules", "switchyard.rules.test.yml"),
    ],
    ids=" ".join,
)
def test_prometheus_takes_the_rules_and_they_fire_when_they_should(arguments: tuple[str, ...]) -> None:
    tool = needs.program("promtool", "prometheus")
    done = subprocess.run([tool, *arguments], cwd=PROMETHEUS, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
