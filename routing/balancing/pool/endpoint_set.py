"""Endpoint set: a pool's replicas over table swaps: which stay, which are new, which leave once drained.

A replica keeps its live state while its uid and URL match. One that is no longer in the table is kept until
its last request has ended. If the table brings it back before that, it has its state back.

What takes long for many replicas can be done in steps, between which requests are served: new ones are made
before the swap (:meth:`EndpointSet.prepare_in_steps`), and the shared cells of idle ones that left are given
back after it (:meth:`EndpointSet.tidy`).
"""

from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence

from routing.balancing.learning import learned_speed
from routing.balancing.replica import sibling_load
from routing.balancing.replica.state import Replica
from routing.contract.table import FleetSnapshot, ReplicaSpec, Tls
from routing.shared.shm_counters import AlreadyHeld, CapacityExhausted, SharedCounters

Pairs = list[tuple[Replica, ReplicaSpec]]
"""Each replica of a table, old or new, with its spec there."""

STEP = 50
"""New replicas that one step makes, or idle ones that it lets go: some 2 ms."""
INTRODUCED_AT_ONCE = 500
"""Replicas whose weights and speeds are set at once: some 1 ms."""
KNOWN_STEP = 1000
"""Known replicas that one step looks up: some 1 ms."""


class EndpointSet:
    """The replicas of one pool, and their cells in the shared counts."""

    def __init__(self, shared: SharedCounters | None) -> None:
        self._shared = shared
        self.listed: list[Replica] = []
        self.leaving: list[Replica] = []
        self.swaps = 0
        """How often the list was replaced."""
        self._idle: deque[Replica] = deque()
        """Those among the leaving ones that :meth:`tidy` lets go, in the same order."""
        self.settled = False
        """Whether a table was applied before: only replicas that join later are slow-started."""

    def unsettle(self) -> None:
        """The next table is the first one."""
        self.settled = False

    def prepare(self, snapshot: FleetSnapshot) -> Pairs:
        """Pair each spec with its replica, old or new. Changes nothing; ValueError on a bad URL."""
        known = self._known()
        return [(known.get((spec.uid, spec.url)) or Replica(spec), spec) for spec in snapshot.replicas]

    def prepare_in_steps(self, snapshot: FleetSnapshot) -> Generator[None, None, Pairs]:
        """As :meth:`prepare`; new replicas have their cells already. Holds as long as :attr:`swaps` stays as
        it is. What is not taken must be dropped (:meth:`drop`); if the generator ends early, it is."""
        pairs: Pairs = []
        try:
            known = self._known()
            yield
            done, room = 0, True
            for spec in snapshot.replicas:
                replica = known.get((spec.uid, spec.url))
                if replica is None:
                    replica = Replica(spec)
                    room = room and self._claim_cells(replica)
                    done += KNOWN_STEP // STEP
                elif replica.spec == spec:
                    spec = replica.spec  # so that the swap need not compare them
                pairs.append((replica, spec))
                done += 1
                if done >= KNOWN_STEP:
                    done = 0
                    yield
        except BaseException:
            self.drop(pairs)
            raise
        return pairs

    def drop(self, pairs: Pairs) -> None:
        """These will not be taken: what was claimed for new replicas is given back."""
        known = set(self.listed).union(self.leaving)
        for replica, _ in pairs:
            if replica not in known:
                self._release_cells(replica)

    def take(self, pairs: Pairs, tls: Tls, in_steps: bool = False) -> None:
        """Apply what :meth:`prepare` returned. ``tls``: how the replicas' certificates are verified.
        ``in_steps``: idle replicas that leave stay until :meth:`tidy`."""
        self.swaps += 1
        before = set(self.listed)
        if any(spec is not replica.spec and spec.weight != replica.spec.weight for replica, spec in pairs):
            for replica, _ in pairs:
                # Credits are sums of weights: those of much greater weights would distort many picks.
                replica.wrr_credit = 0.0
        room = True
        settled = self.settled
        for replica, spec in pairs:
            if settled and replica not in before:
                replica.slow_start.pending = True
            if replica.spec is not spec:
                _renew(replica, spec)
            if replica.leaving:
                replica.leaving = False
            # Conditions that are written out: each call is a tenth of a large table's swap.
            if replica.security.tls is not None:
                replica.verify_by(tls)
            if replica.cells is None and room:
                room = self._claim_cells(replica)
        self.leaving = [replica for replica in self.leaving if replica.leaving]
        retired, self.listed = self.listed, [replica for replica, _ in pairs]
        self.settled = True
        stays = set(self.listed)
        self._retire([replica for replica in retired if replica not in stays], in_steps)

    def retire_all(self, in_steps: bool = False) -> None:
        """The fleet was removed: every replica leaves. ``in_steps``: as of :meth:`take`."""
        self.swaps += 1
        retired, self.listed = self.listed, []
        self._retire(retired, in_steps)

    def on_drained(self, replica: Replica) -> None:
        """The last request of a leaving replica has ended: forget it."""
        if replica in self.leaving:
            self.leaving.remove(replica)
        self._release_cells(replica)

    def tidy(self) -> Iterator[None]:
        """Let idle replicas that left go, in steps. They may come back meanwhile."""
        number = 0
        while self._idle:
            replica = self._idle.popleft()
            if replica.leaving and not replica.in_flight:
                self.on_drained(replica)
            number += 1
            if number % STEP == 0:
                yield

    def repair_cells(self, replicas: Iterable[Replica]) -> None:
        """Claim cells again that the master has cleared although this worker is alive, and those for which
        there was no room. That there is none is found out once, for it takes a look at every slot."""
        if self._shared is None:
            return
        room = True
        for replica in replicas:
            if replica.cells is not None and not self._shared.still_held(replica.cells):
                self._shared.drop(replica.cells)
                replica.cells = replica.cell_view = None
            if replica.cells is None and room:
                room = self._claim_cells(replica)

    def _known(self) -> dict[tuple[str, str], Replica]:
        return {(r.uid, r.spec.url): r for r in (*self.leaving, *self.listed)}

    def _retire(self, retired: Sequence[Replica], in_steps: bool) -> None:
        for replica in retired:
            replica.leaving = True
        self.leaving += retired
        idle = [replica for replica in retired if not replica.in_flight]
        if in_steps:
            self._idle += idle
            return
        for replica in idle:
            self.on_drained(replica)

    def _release_cells(self, replica: Replica) -> None:
        if self._shared is not None and replica.cells is not None:
            self._shared.release(replica.cells)
            replica.cells = replica.cell_view = None

    def _claim_cells(self, replica: Replica) -> bool:
        """Whether there may be room for another. Without cells each worker counts this one for itself until
        there are some: worse picks, no lost request."""
        if self._shared is None or replica.cells is not None:
            return True
        try:
            cells = self._shared.claim(f"{replica.uid} {replica.spec.url}")
        except CapacityExhausted:
            return False
        except AlreadyHeld:
            return True  # a fleet that was removed and is back before its last request has ended
        replica.cells, replica.cell_view, replica.cell_at = cells, cells.view, cells.own
        cells.write_counts(replica.in_flight, replica.work)
        sibling_load.count_queued(replica, 0, 0.0)
        return True


def _renew(replica: Replica, spec: ReplicaSpec) -> None:
    """Give a replica its newer spec; slow-start one that has just come up."""
    old = replica.spec
    came_up = spec.health == "ready" and old.health != "ready"
    came_back = spec.admin_state == "active" and old.admin_state == "maintenance"
    if came_up or came_back:
        replica.slow_start.pending = True
    if spec.weight != old.weight:
        learned_speed.rescale(replica.speed, old.weight, spec.weight)
    replica.adopt(spec)
