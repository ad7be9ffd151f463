"""Endpoint set: a pool's replicas over table swaps: which stay, which are new, which leave once drained.

A replica keeps its live state while its uid and URL match. One that is no longer in the table is kept until
its last request has ended. If the table brings it back before that, it has its state back.
"""

from collections.abc import Iterable

from routing.balancing.learning import learned_speed
from routing.balancing.replica import sibling_load
from routing.balancing.replica.state import Replica
from routing.contract.table import FleetSnapshot, ReplicaSpec, Tls
from routing.shared.shm_counters import AlreadyHeld, CapacityExhausted, SharedCounters


class EndpointSet:
    """The replicas of one pool, and their cells in the shared counts."""

    def __init__(self, shared: SharedCounters | None) -> None:
        self._shared = shared
        self.listed: list[Replica] = []
        self.leaving: list[Replica] = []
        self._settled = False
        """Whether a table was applied before: only replicas that join later are slow-started."""

    def prepare(self, snapshot: FleetSnapshot) -> list[tuple[Replica, ReplicaSpec]]:
        """Pair each spec with its replica, old or new. Changes nothing; ValueError on a bad URL."""
        known = {(r.uid, r.spec.url): r for r in (*self.leaving, *self.listed)}
        return [(known.get((spec.uid, spec.url)) or Replica(spec), spec) for spec in snapshot.replicas]

    def take(self, pairs: list[tuple[Replica, ReplicaSpec]], tls: Tls) -> None:
        """Apply what :meth:`prepare` returned. ``tls``: how the replicas' certificates are verified."""
        before = set(self.listed)
        if any(spec.weight != replica.spec.weight for replica, spec in pairs):
            for replica, _ in pairs:
                # Credits are sums of weights: those of much greater weights would distort many picks.
                replica.wrr_credit = 0.0
        for replica, spec in pairs:
            _renew(replica, spec, joins=self._settled and replica not in before)
            replica.verify_by(tls)
            self._claim_cells(replica)
        self.leaving = [replica for replica in self.leaving if replica.leaving]
        self.listed = [replica for replica, _ in pairs]
        self._settled = True
        self._retire(before.difference(self.listed))

    def retire_all(self) -> None:
        """The fleet was removed: every replica leaves."""
        retired, self.listed = self.listed, []
        self._retire(retired)

    def on_drained(self, replica: Replica) -> None:
        """The last request of a leaving replica has ended: forget it."""
        if replica in self.leaving:
            self.leaving.remove(replica)
        if self._shared is not None and replica.cells is not None:
            self._shared.release(replica.cells)
            replica.cells = replica.cell_view = None

    def repair_cells(self) -> None:
        """Claim cells again that the master has cleared although this worker is alive."""
        if self._shared is None:
            return
        for replica in self.listed:
            if replica.cells is None:
                self._claim_cells(replica)
            elif not self._shared.still_held(replica.cells):
                self._shared.drop(replica.cells)
                replica.cells = replica.cell_view = None
                self._claim_cells(replica)

    def _retire(self, retired: Iterable[Replica]) -> None:
        for replica in retired:
            replica.leaving = True
            self.leaving.append(replica)
            if not replica.in_flight:
                self.on_drained(replica)

    def _claim_cells(self, replica: Replica) -> None:
        if self._shared is None or replica.cells is not None:
            return
        try:
            cells = self._shared.claim(f"{replica.uid} {replica.spec.url}")
        except (CapacityExhausted, AlreadyHeld):
            # Full, or a fleet that was removed and is back before its last request has ended. Each worker
            # counts this one for itself until the next table: worse picks, no lost request.
            return
        replica.cells, replica.cell_view, replica.cell_at = cells, cells.view, cells.own
        cells.write_counts(replica.in_flight, replica.work)
        sibling_load.count_queued(replica, 0, 0.0)


def _renew(replica: Replica, spec: ReplicaSpec, joins: bool) -> None:
    """Give a replica its newer spec; slow-start one that joins or has just come up."""
    old = replica.spec
    came_up = spec.health == "ready" and old.health != "ready"
    came_back = spec.admin_state == "active" and old.admin_state == "maintenance"
    if joins or came_up or came_back:
        replica.slow_start.pending = True
    if spec.weight != old.weight:
        learned_speed.rescale(replica.speed, old.weight, spec.weight)
    replica.adopt(spec)
    replica.leaving = False
