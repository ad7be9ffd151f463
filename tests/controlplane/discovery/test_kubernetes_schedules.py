"""Kubernetes in simulated time: the real client of its API, over answers of a cluster that misbehaves.

Only the socket is left out: what is asked, page by page, what each answer means, how long is waited after a
429, and what follows for the fleet is what runs in a conductor.
"""

import json
import random
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

import msgspec
import pytest

from controlplane.discovery.kinds.kind import SourceError
from controlplane.discovery.kinds.kubernetes import ClusterAccess, KubernetesService
from controlplane.discovery.listing import Listing
from controlplane.discovery.reconciler import RECHECK_S
from routing.contract.fleet_file.sources.source_structs import KubernetesSettings
from tests.controlplane.discovery.kinds.api_server import endpoint, endpoint_slice
from tests.controlplane.discovery.test_reconciler import CONVERGED_S, RESYNC_S, STEP_S, Fleet

T = TypeVar("T")

FAULTS = ["none", "dead", "429", "410", "empty", "cut", "dropped", "stale", "no addresses", "500"]
GRACE_S = 3.0


class Cluster:
    """Pods of a service, in slices of three; each fault lasts for a while."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.now = 0.0
        self.made = 0
        self.pods: list[str] = []
        self.terminating: dict[str, float] = {}
        """Pod → when it is gone."""
        self.fault = "none"
        self.rings = False
        """A watch tells of a change."""
        self._stale: list[dict[str, Any]] = []
        self.scale(rng.randint(1, 8))

    def scale(self, size: int, *, silently: bool = False) -> None:
        while len(self.pods) < size:
            self.pods.append(f"pod-{self.made}")
            self.made += 1
        for pod in self.pods[size:]:
            if not silently:
                self.terminating[pod] = self.now + GRACE_S
        del self.pods[size:]

    def change(self) -> None:
        """Up, down, a rollout, or a node that is lost with its pods, which nobody announces."""
        kind = self.rng.choice(["up", "up", "down", "roll", "node"])
        size = len(self.pods)
        if kind == "up" or not size:
            self.scale(size + self.rng.randint(1, 4))
        elif kind == "roll":
            self.scale(0)
            self.scale(size)
        else:
            self.rng.shuffle(self.pods)
            self.scale(self.rng.randint(0, size - 1), silently=kind == "node")
        self.rings = self.fault not in ("dead", "429", "410") and self.rng.random() < 0.5

    def tick(self) -> None:
        self.now += STEP_S
        self.terminating = {pod: at for pod, at in self.terminating.items() if at > self.now}

    @property
    def alive(self) -> set[str]:
        return {*self.pods, *self.terminating}

    def slices(self) -> list[dict[str, Any]]:
        going = {"ready": False, "serving": True, "terminating": True}
        ends = [endpoint(pod, f"10.0.0.{int(pod[4:]) % 250}") for pod in self.pods]
        ends += [endpoint(pod, f"10.0.0.{int(pod[4:]) % 250}", conditions=going) for pod in self.terminating]
        return [endpoint_slice(f"s{at}", *ends[at : at + 3]) for at in range(0, len(ends), 3)]

    def answer(self, query: str) -> tuple[int, str, bytes]:
        """Status, Retry-After, body. Raises SourceError where nothing comes."""
        items, fault = self.slices(), self.fault
        if fault == "dead":
            raise SourceError("nothing listens")
        if fault == "429":
            return 429, str(self.rng.randint(0, 2)), b""
        if fault == "500":
            return 500, "", b"{}"
        if fault == "stale":
            items = self._stale
        elif fault == "none":
            self._stale = items
        if fault == "empty":
            items = []
        if fault == "no addresses":
            items = [
                {**one, "endpoints": [{**end, "addresses": []} for end in one["endpoints"]]} for one in items
            ]
        fields = dict(part.split("=", 1) for part in query.split("&"))
        first = int(fields.get("continue", "0"))
        if fault == "410" and first:
            return 410, "", b"{}"
        last = first + (1 if "limit" in fields else len(items))  # pages of one slice
        rest = len(items) - last
        more = {"continue": str(last), "remainingItemCount": rest} if rest > 0 else {}
        if fault == "dropped":
            more.pop("continue", None)
        body = json.dumps({"metadata": {"resourceVersion": "1", **more}, "items": items[first:last]}).encode()
        return 200, "", body[: self.rng.randint(0, len(body) - 1)] if fault == "cut" else body


class SimulatedService(KubernetesService):
    def __init__(self, cluster: Cluster) -> None:
        settings = msgspec.to_builtins(KubernetesSettings(namespace="models", service="llm"))
        super().__init__(ClusterAccess("", "", ""), settings, {}, clock=lambda: cluster.now)
        self.cluster = cluster

    async def _answer(self, path: str, accept: str = "") -> tuple[int, str, bytes]:
        return self.cluster.answer(path.partition("?")[2])


def result_of(call: Coroutine[Any, Any, T]) -> T:
    """Of one that never has to wait."""
    try:
        call.send(None)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    raise AssertionError("it waits")


def run_schedule(seed: int) -> float:
    """Seconds from the end of all faults and changes until the fleet is as the cluster says."""
    rng = random.Random(seed)
    cluster = Cluster(rng)
    service, fleet = SimulatedService(cluster), Fleet()
    due = 0.0
    seen: list[tuple[float, set[str]]] = []

    def moment() -> None:
        nonlocal due
        seen.append((fleet.now + 1.0, cluster.alive))  # probes see within a second what has come and gone
        while seen and seen[0][0] <= fleet.now:
            fleet.alive = seen.pop(0)[1]
        served = bool(fleet.serving & set(cluster.pods))
        if fleet.now >= due or cluster.rings:
            cluster.rings = False
            listing: Listing | None = None
            with suppress(SourceError):
                listing = result_of(service.read({}))
            plan = fleet.step(listing, after_s=0.0)
            due = fleet.now + (RECHECK_S if plan.hurry else RESYNC_S)
        assert not served or fleet.serving, f"seed {seed}: emptied at {fleet.now} s"
        fleet.now += STEP_S
        cluster.tick()

    for _ in range(rng.randint(10, 40)):
        if rng.random() < 0.25:
            cluster.fault = rng.choice(FAULTS)
        if rng.random() < 0.15:
            cluster.change()
        moment()
    cluster.fault = "none"
    while cluster.terminating or service._not_before > cluster.now:
        moment()
    began = fleet.now
    while set(fleet.rows) != set(cluster.pods) or fleet.drained:
        assert fleet.now - began <= 60, f"seed {seed}: stuck"
        moment()
    return fleet.now - began


def check(seeds: range) -> None:
    assert not {seed: took for seed in seeds if (took := run_schedule(seed)) > CONVERGED_S}


def test_random_schedules_of_a_cluster_converge_and_never_empty_a_fleet() -> None:
    check(range(150))


@pytest.mark.long
def test_ten_thousand_random_schedules_of_a_cluster() -> None:
    check(range(150, 10_150))
