"""What follows from a source's listings: transcripts, then random schedules of a source that misbehaves."""

import random
from dataclasses import dataclass, field

import pytest

from controlplane.discovery import leases
from controlplane.discovery.listing import Listing, Memory, OwnReplica, Plan
from controlplane.discovery.reconciler import RECHECK_S, reconcile
from routing.contract.fleet_file import ReplicaEntry

RESYNC_S = 2.0
STEP_S = 0.5
CONVERGED_S = 5.0


def entry(name: str, site: str = "") -> ReplicaEntry:
    return ReplicaEntry(name=name, url=f"http://{name}:8000", site=site)


def entries(*names: str) -> dict[str, ReplicaEntry]:
    return {name: entry(name) for name in names}


@dataclass
class Fleet:
    """A fleet that carries out every plan at once; ``alive``: what probes find."""

    alive: set[str] = field(default_factory=set)
    rows: dict[str, ReplicaEntry] = field(default_factory=dict)
    drained: dict[str, float] = field(default_factory=dict)
    others: set[str] = field(default_factory=set)
    memory: Memory = field(default_factory=Memory)
    now: float = 0.0

    def own(self) -> dict[str, OwnReplica]:
        return {
            name: OwnReplica(
                entry=row,
                ready=name in self.alive,
                gone=name not in self.alive,
                active=name not in self.drained,
                drained_by_source_s=self.now - self.drained[name] if name in self.drained else None,
                safe_to_stop=name in self.drained and self.now > self.drained[name],
            )
            for name, row in self.rows.items()
        }

    def step(self, listing: Listing | None, after_s: float = RECHECK_S) -> Plan:
        self.now += after_s
        self.memory, plan = reconcile(self.memory, listing, self.own(), self.others, self.now)
        for one in (*plan.add, *plan.change):
            self.rows[one.name] = one
        for name in plan.drain:
            self.drained[name] = self.now
        for name in plan.resume | plan.remove:
            self.drained.pop(name, None)
        for name in plan.remove:
            del self.rows[name]
        return plan

    @property
    def serving(self) -> set[str]:
        return (self.rows.keys() - self.drained.keys()) & self.alive


def fleet_of(*names: str) -> Fleet:
    fleet = Fleet(alive=set(names))
    fleet.step(Listing(entries(*names)))
    return fleet


def test_what_is_listed_is_added_and_changed() -> None:
    fleet = fleet_of("a", "b")
    assert set(fleet.rows) == {"a", "b"}
    plan = fleet.step(Listing({**entries("a"), "b": entry("b", site="east")}))
    assert [one.name for one in plan.change] == ["b"]
    assert not plan.add


def test_what_others_own_is_left_alone() -> None:
    fleet = Fleet(others={"a"})
    plan = fleet.step(Listing(entries("a", "b")))
    assert plan.taken == {"a"}
    assert set(fleet.rows) == {"b"}


def test_one_that_is_missing_twice_is_drained_then_removed() -> None:
    fleet = fleet_of("a", "b", "c")
    assert not fleet.step(Listing(entries("a", "b"))).drain
    assert fleet.step(Listing(entries("a", "b"))).drain == {"c"}
    assert fleet.step(Listing(entries("a", "b"))).remove == {"c"}


def test_one_that_is_listed_again_is_resumed() -> None:
    fleet = fleet_of("a", "b", "c")
    fleet.step(Listing(entries("a", "b")))
    fleet.step(Listing(entries("a", "b")))
    plan = fleet.step(Listing(entries("a", "b", "c")), after_s=0.0)
    assert plan.resume == {"c"}
    assert not plan.remove


@pytest.mark.parametrize("listed", [(), ("a",)], ids=["empty", "shrunk"])
def test_a_suspicious_listing_freezes_until_probes_find_them_gone_twice(listed: tuple[str, ...]) -> None:
    fleet = fleet_of("a", "b", "c", "d")
    for _ in range(10):
        plan = fleet.step(Listing(entries(*listed)))
        assert not plan.drain | plan.remove
    assert "stay until probes too find them gone" in plan.frozen
    fleet.alive = {"a"} & set(listed)
    assert not fleet.step(Listing(entries(*listed))).remove
    fleet.step(Listing(entries(*listed)))
    assert set(fleet.rows) == set(listed)


def test_lists_that_shrink_by_little_each_time_do_not_empty_a_fleet() -> None:
    names = [f"r{number}" for number in range(8)]
    fleet = fleet_of(*names)
    for size in (5, 3, 2, 1):
        for _ in range(4):
            fleet.step(Listing(entries(*names[:size])))
    assert len(fleet.serving) >= 4


def test_a_source_that_is_away_changes_nothing_and_says_for_how_long() -> None:
    fleet = fleet_of("a", "b")
    fleet.alive = set()
    for _ in range(30):
        plan = fleet.step(None)
    assert set(fleet.rows) == {"a", "b"}
    assert "has not answered for 30 s" in plan.frozen


def test_scaling_to_zero_goes_through_when_declared() -> None:
    by_size, by_name = fleet_of("a", "b"), fleet_of("a", "b")
    assert by_size.step(Listing({}, declared_size=0)).drain == {"a", "b"}
    assert by_name.step(Listing({}, leaving=frozenset({"a", "b"}))).drain == {"a", "b"}


def test_a_full_rollout_waits_for_its_new_replicas() -> None:
    fleet = fleet_of("a", "b", "c", "d")
    new = Listing(entries("e", "f", "g", "h"))
    for _ in range(5):
        fleet.step(new)
        assert len(fleet.serving) >= 2
    fleet.alive |= {"e", "f", "g", "h"}
    for _ in range(4):
        fleet.step(new)
    assert set(fleet.rows) == {"e", "f", "g", "h"}


def test_an_event_takes_nothing_away() -> None:
    fleet = fleet_of("a", "b")
    for _ in range(5):
        plan = fleet.step(Listing(entries("c"), complete=False))
    assert set(fleet.rows) == {"a", "b", "c"}
    assert not plan.drain | plan.remove


def test_a_person_who_activates_a_drained_replica_keeps_it() -> None:
    gone = OwnReplica(entry("c"), ready=True, gone=False, active=True, drained_by_source_s=900.0)
    own = {**{name: OwnReplica(entry(name), True, False) for name in "ab"}, "c": gone}
    memory = Memory()
    for now in range(1, 5):
        memory, plan = reconcile(memory, Listing(entries("a", "b")), own, (), float(now))
        assert not plan.drain | plan.remove


def test_leases_that_ran_out_while_we_were_away_get_a_whole_term() -> None:
    back = leases.back_at(None, None, 100.0)
    assert back == 100.0
    assert leases.is_valid(90.0, 15.0, back, 114.0)
    assert not leases.is_valid(90.0, 15.0, back, 115.0)
    assert leases.back_at(100.0, 200.0, 201.0) == 100.0
    assert leases.back_at(100.0, 200.0, 206.0) == 206.0
    assert not leases.is_valid(90.0, 15.0, None, 91.0)


class Source:
    """A source with a truth, and with faults that last for a while each."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.made = rng.randint(1, 8)
        self.truth = {f"r{number}" for number in range(self.made)}
        self.fault = "none"
        self.leaving: set[str] = set()

    def change(self) -> None:
        """Scale up, down, to zero (never in silence here) or roll out."""
        kind = self.rng.choice(["up", "up", "down", "roll"])
        before = set(self.truth)
        if kind == "up" or not self.truth:
            for _ in range(self.rng.randint(1, 4)):
                self._new()
        elif kind == "down":
            self.truth -= set(self.rng.sample(sorted(self.truth), self.rng.randint(1, len(self.truth))))
        else:
            size = len(self.truth)
            self.truth = set()
            for _ in range(size):
                self._new()
        self.leaving |= before - self.truth

    def _new(self) -> None:
        self.truth.add(f"r{self.made}")
        self.made += 1

    def list(self) -> Listing | None:
        if self.fault in ("dead", "429"):
            return None
        if self.fault == "empty":
            return Listing({})
        if self.fault == "truncated":
            kept = self.rng.sample(sorted(self.truth), self.rng.randint(0, len(self.truth)))
            return Listing(entries(*kept))
        return Listing(entries(*sorted(self.truth)))

    def event(self) -> Listing | None:
        """Of the watch; lost where it is broken, and now and then elsewhere."""
        leaving, self.leaving = self.leaving, set()
        if self.fault in ("dead", "429", "410") or self.rng.random() < 0.5:
            return None
        return Listing(entries(*sorted(self.truth)), complete=False, leaving=frozenset(leaving))


FAULTS = ["none", "dead", "429", "410", "empty", "truncated"]


def run_schedule(seed: int) -> float:
    """Seconds from the end of all faults and changes until the fleet is as the source says."""
    rng = random.Random(seed)
    source, fleet = Source(rng), Fleet()
    due = 0.0
    dying: list[tuple[float, set[str]]] = []

    def moment() -> None:
        nonlocal due
        # Probes see within a second what has come and gone.
        dying.append((fleet.now + 1.0, set(source.truth)))
        while dying and dying[0][0] <= fleet.now:
            fleet.alive = dying.pop(0)[1]
        served = bool(fleet.serving & source.truth)
        listing = source.list() if fleet.now >= due else source.event()
        if listing is not None or fleet.now >= due:
            complete = listing is None or listing.complete
            plan = fleet.step(listing, after_s=0.0)
            if complete:
                due = fleet.now + (RECHECK_S if plan.hurry else RESYNC_S)
        assert not served or fleet.serving, f"seed {seed}: emptied at {fleet.now} s"
        fleet.now += STEP_S

    for _ in range(rng.randint(10, 40)):
        if rng.random() < 0.25:
            source.fault = rng.choice(FAULTS)
        if rng.random() < 0.15:
            source.change()
        moment()
    source.fault = "none"
    began = fleet.now
    while set(fleet.rows) != source.truth or fleet.drained:
        assert fleet.now - began <= 60, f"seed {seed}: stuck"
        moment()
    return fleet.now - began


def check(seeds: range) -> None:
    late = {seed: took for seed in seeds if (took := run_schedule(seed)) > CONVERGED_S}
    assert not late


def test_random_schedules_converge_and_never_empty_a_fleet() -> None:
    check(range(600))


@pytest.mark.long
def test_ten_thousand_random_schedules() -> None:
    check(range(600, 10_600))
