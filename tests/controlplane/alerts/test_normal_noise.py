"""A day of normal noise makes no alert; and the same day with faults in it makes one for each."""

from random import Random

from controlplane.alerts.picture import Picture, SeenFleet, TroubledSource
from tests.controlplane.alerts.pictures import (
    PARTS,
    PERIOD_S,
    Simulated,
    fleet,
    part,
    picture,
    replica,
    worker,
)

DAY_S = 24 * 3600
REPLICAS = 8


class Noise:
    """What a fleet of eight replicas and two proxies shows on a day on which nothing is wrong."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.until: dict[str, tuple[str, float]] = {}
        """What is not as usual → its state word, and until when."""

    def begin(self, what: str, state: str, now: float, shortest_s: float, longest_s: float) -> None:
        self.until.setdefault(what, (state, now + self.rng.uniform(shortest_s, longest_s)))

    def happen(self, now: float) -> None:
        """By the mean time between two of a kind."""
        self.until = {what: (state, end) for what, (state, end) in self.until.items() if end > now}
        for what, state, every_s, shortest_s, longest_s in (
            (f"replica {self.rng.randrange(REPLICAS)}", "ejected", 600, 5, 120),  # a few timeouts, probation
            (
                f"replica {self.rng.randrange(REPLICAS)}",
                "down",
                1800,
                30,
                400,
            ),  # a pod restarts, loads its model
            ("all", "unready", 7200, 1, 15),  # a network that stutters
            ("queue", "refusing", 900, 5, 30),  # a burst
            ("probes", "late", 1800, 3, 40),  # a busy host
            ("worker 0", "behind", 1200, 1, 20),  # a change on its way
            ("worker 1", "silent", 7200, 1, 12),  # a rolling restart
            ("worker 1", "no updates", 7200, 1, 30),  # Redis fails over
            ("conductor", "missing", 7200, 1, 15),  # an election
            ("beat", "missing", 14400, 1, 20),
            ("frames", "unknown", 3600, 1, 30),
            ("source", "failing", 3600, 2, 200),  # an API server is upgraded
        ):
            if self.rng.random() < PERIOD_S / every_s:
                self.begin(what, state, now, shortest_s, longest_s)

    def seen(self) -> Picture:
        if "frames" in self.until:
            return Picture()
        states = {what: state for what, (state, _) in self.until.items()}
        parts = dict(PARTS)
        for name in ("conductor", "beat"):
            if name in states:
                parts[name] = part(name, "bad", states[name])
        if "probes" in states:
            parts["probes"] = part("probes", "warn", "late")
        workers = [worker(states.get(f"worker {index}", "current"), f"gpu-{index}/7/0") for index in range(2)]
        troubled = [TroubledSource("llm", "pods", False, "no answer")] if "source" in states else []
        return picture(self.fleet(states), parts=parts, proxies=workers, sources=troubled)

    def fleet(self, states: dict[str, str]) -> SeenFleet:
        states_of = (states.get("all", states.get(f"replica {index}", "ready")) for index in range(REPLICAS))
        present = [replica(f"r{index}", state) for index, state in enumerate(states_of)]
        return fleet(*present, queue=states.get("queue", ""))


def test_a_day_of_normal_noise_makes_no_alert() -> None:
    sim, noise = Simulated(), Noise(Random(7))
    for _ in range(int(DAY_S / PERIOD_S)):
        noise.happen(sim.now)
        sim.see(noise.seen())
    began = {change.alert.rule for _, change in sim.log}
    assert began >= {
        "no_eligible_replica",
        "replica_out",
        "queue_refusing",
        "probe_lag",
        "table_old",
        "proxy_missing",
        "source_frozen",
    }
    assert [change for _, change in sim.log if change.step == "fired"] == []


def test_faults_among_the_noise_are_found_once_each() -> None:
    sim, noise = Simulated(), Noise(Random(7))
    faults = (("replica 3", "down", 1200.0), ("queue", "refusing", 300.0), ("beat", "missing", 90.0))
    for turn in range(int(7200 / PERIOD_S)):
        noise.happen(sim.now)
        if turn == 200:
            for what, state, lasts_s in faults:
                noise.until[what] = (state, sim.now + lasts_s)
        sim.see(noise.seen())
    fired = [change.alert for _, change in sim.log if change.step == "fired"]
    assert sorted((one.rule, one.subject.words) for one in fired) == [
        ("control_plane_missing", "beat"),
        ("queue_refusing", "llm"),
        ("replica_out", "llm/r3"),
    ]
    assert sum(change.step == "resolved" for _, change in sim.log) == len(faults)
