"""An installation with some of everything: so many fleets, replicas, keys, rules, sources …, by the API."""

from typing import Any

from django.utils import timezone

from controlplane.models import Alert, Replica, ReplicaOwner
from tests.controlplane.conftest import Api


def fill(api: Api, rows: int, first: int = 0) -> None:
    """The rows from the number ``first`` on. Each fleet has one replica, the first of them has all others."""
    for number in range(first, rows):
        _fill_one(api, number)


def _fill_one(api: Api, n: int) -> None:
    _make(api, "/hardware-classes", {"name": f"class-{n}", "weight": 1.0 + n})
    _make(api, "/accelerators", {"name": f"node{n}/gpu0", "memory_bytes": 2**30})
    _make(
        api, "/exporters", {"name": f"exporter-{n}", "host": f"node{n}", "url": f"http://10.0.1.{n + 1}:9400"}
    )
    replica = {
        "url": f"http://10.0.0.{n + 1}:8000",
        "hardware": f"class-{n}",
        "accelerators": [f"node{n}/gpu0"],
    }
    fleet = {
        "name": f"fleet-{n}",
        "protocol": "openai",
        "aliases": [f"alias-{n}"],
        "labels": {"team": "search"},
    }
    _make(api, "/fleets?trial=no", {**fleet, "replicas": [{"name": "own", **replica}]})
    _make(
        api,
        "/fleets/fleet-0/replicas?trial=no",
        {**replica, "name": f"r{n}", "url": f"http://10.0.2.{n + 1}:1"},
    )
    assert api.patch("/fleets/fleet-0/policy", {"queue": {"size": 8 + n}}).status_code == 200
    _make(api, "/fleets/fleet-0/sources", {"name": f"source-{n}", "lease": {"allow": ["10.0.0.0/8"]}})
    owned = Replica.objects.get(fleet__name="fleet-0", name=f"r{n}")
    ReplicaOwner.objects.create(replica=owned, source=owned.fleet.sources.get(name=f"source-{n}"))
    _make(api, "/client-keys", {"name": f"key-{n}", "fleets": [f"fleet-{n}", "fleet-0"][: 1 + bool(n)]})
    _make(api, "/tokens", {"name": f"token-{n}"})
    rule = {"name": f"rule-{n}", "metric": "rps", "comparison": "above", "value": 1, "fleet": f"fleet-{n}"}
    _make(api, "/alerts/rules", rule)
    pager = {"name": f"pager-{n}", "kind": "webhook", "url": f"https://10.0.3.{n + 1}/hook"}
    _make(api, "/alerts/destinations", pager)
    _make(api, "/alerts/silences", {"fleet": f"fleet-{n}", "reason": "x", "duration_s": 600})
    now = timezone.now()
    alert = {"rule": f"rule-{n}", "title": f"rule {n}", "fleet_name": f"fleet-{n}", "severity": "warning"}
    Alert.objects.create(uid=f"{n:032}", state="firing", words="x", since=now, worded_at=now, **alert)


def _make(api: Api, path: str, body: dict[str, Any]) -> None:
    made = api.post(path, body)
    if made.status_code == 409 and "confirm" in made.json():
        made = api.post(f"{path}{'&' if '?' in path else '?'}confirm={made.json()['confirm']}", body)
    assert made.status_code == 201, made.content
