"""Fixtures of discovery: a fleet with a source, and steps of following it on a real database and Redis."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
import redis
from django.utils import timezone

from controlplane.discovery.following import Answer, Following
from controlplane.discovery.listing import Listing, Plan
from controlplane.discovery.runner import DiscoveryRunner
from controlplane.models import DiscoverySource, Replica, ReplicaHealth
from controlplane.services import sources
from controlplane.telemetry.frames import fleet_key
from routing.contract.fleet_file import ReplicaEntry


def entry(name: str, **settings: Any) -> ReplicaEntry:
    return ReplicaEntry(name=name, **{"url": f"http://10.0.0.1:{9000 + sum(name.encode())}", **settings})


def listing(*names: str, **more: Any) -> Listing:
    return Listing({name: entry(name) for name in names}, **more)


@dataclass
class Followed:
    """A source that is followed step by step, in time of its own."""

    source: DiscoverySource
    client: "redis.Redis"
    now: float = 1000.0
    began: datetime = field(default_factory=timezone.now)

    def __post_init__(self) -> None:
        self.following = self.another()

    def another(self) -> Following:
        """As a process that has just begun follows it."""
        return Following(self.source, self.client, clock=lambda: self.now, now=self.time)

    def time(self) -> datetime:
        return self.began + timedelta(seconds=self.now - 1000.0)

    def step(self, what: Listing | str, after_s: float = 1.0) -> Plan:
        self.now += after_s
        answer = Answer(None, what) if isinstance(what, str) else Answer(what)
        return self.following.step(answer)

    def probed(self, state: str, *names: str) -> None:
        rows = Replica.objects.filter(fleet=self.source.fleet, name__in=names)
        ReplicaHealth.objects.filter(replica__in=rows).update(
            state=state, has_passed=state != ReplicaHealth.State.CHECKING
        )
        self.source.fleet.refresh_from_db()
        type(self.source.fleet).objects.filter(pk=self.source.fleet_id).update(
            table_version=self.source.fleet.table_version + 1
        )

    def all_workers_idle(self) -> None:
        """A frame as the conductor stores it: nothing is in flight anywhere."""
        rows = Replica.objects.filter(fleet=self.source.fleet)
        frame = {
            "at": time.time(),
            "workers": 1,
            "workers_current": 1,
            "replicas": [{"name": row.name, "admin_state": row.admin_state, "in_flight": 0} for row in rows],
        }
        self.client.set(fleet_key(self.source.fleet.name), msgspec.json.encode(frame))

    @property
    def states(self) -> dict[str, str]:
        rows = Replica.objects.filter(fleet=self.source.fleet)
        return dict(rows.order_by("name").values_list("name", "admin_state"))

    @property
    def status(self) -> Any:
        self.source.refresh_from_db()
        return DiscoverySource.objects.select_related("status").get(pk=self.source.pk).status


@pytest.fixture
def make_followed(
    fresh_stores: None, make_fleet: Callable[..., str], redis_client: "redis.Redis"
) -> Callable[..., Followed]:
    def make(fleet: str = "llm", name: str = "pods", **settings: Any) -> Followed:
        make_fleet(fleet, **settings)
        sources.create(fleet, {"name": name, "file": {"path": "llm.yaml"}}, "anna")
        row = DiscoverySource.objects.select_related("fleet").get(fleet__name=fleet, name=name)
        return Followed(row, redis_client)

    return make


@pytest.fixture
def followed(make_followed: Callable[..., Followed]) -> Followed:
    """Of a fleet without replicas."""
    return make_followed()


def until(what: Callable[[], Any], within_s: float = 20.0) -> None:
    ends = time.monotonic() + within_s
    while not what():
        assert time.monotonic() < ends, "did not happen in time"
        time.sleep(0.02)


class Leader:
    leads = True


@pytest.fixture
def leader(fresh_stores: None, redis_client: "redis.Redis") -> Iterator[Leader]:
    leader = Leader()
    runner = DiscoveryRunner(redis_client, lambda: leader.leads)
    runner.start()
    yield leader
    runner.stop()
