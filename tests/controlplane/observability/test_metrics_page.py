"""docs/metrics.md holds exactly what the code exposes, under names and units that Prometheus expects."""

import re

import pytest

from routing.contract.ended_requests import ERROR_REASONS
from tests.documented_metrics import PAGE, ROLES, Row, of_proxy, of_role, on_page

BASE_UNITS = ("seconds", "bytes")
OTHER_UNITS = re.compile(r"_(ms|milliseconds|minutes|hours|kb|mb|kilobytes|megabytes|percent|ratio100)(_|$)")


@pytest.mark.parametrize("role", ROLES)
def test_each_metric_of_the_control_plane_is_on_the_page(role: str) -> None:
    assert on_page(ROLES[role]) == of_role(role)


def test_each_metric_of_the_proxy_is_on_the_page() -> None:
    assert on_page("The proxy") == of_proxy()


@pytest.mark.parametrize("role", ["proxy", *ROLES])
def test_names_and_units(role: str) -> None:
    for row in of_proxy() if role == "proxy" else of_role(role):
        check_name(row)


def check_name(row: Row) -> None:
    assert row.name.startswith(("switchyard_", "process_")), row
    assert re.fullmatch(r"[a-z][a-z0-9_]*", row.name), row
    assert (row.kind == "counter") == row.name.endswith("_total"), row
    assert not OTHER_UNITS.search(row.name), row
    stem = row.name.removesuffix("_total")
    if re.search(r"\b(duration|age|uptime|lateness|lag)\b", stem.replace("_", " ")):
        assert stem.endswith(BASE_UNITS), row
    assert row.words.endswith("."), row
    assert row.kind != "histogram" or "replica" not in row.labels, row


def test_the_page_has_each_reason_of_an_error() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|$", PAGE.read_text(), re.M))
    assert rows.pop("reason") == "an error because"
    assert rows == ERROR_REASONS
