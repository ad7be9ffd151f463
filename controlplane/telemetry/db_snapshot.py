"""Database snapshot: the desired state, read once a second for the frames."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from controlplane.models import Accelerator, ClientKey, Fleet, Replica
from controlplane.publishing.snapshots import current_state, fleet_versions
from routing.contract.accelerators import usable_bytes
from routing.contract.defaults import with_defaults
from routing.contract.policy import Locality, Policy, Queue, Scaling, Serves


class AcceleratorPlacement(NamedTuple):
    """A replica on one accelerator, as far as its requests lease memory there."""

    accelerator: str
    request_bytes: int
    request_bytes_per_work: float


wall_clock = time.time


@dataclass(frozen=True, slots=True)
class ReplicaRow:
    """One replica as operators and probes left it."""

    id: int
    uid: str
    name: str
    weight: float
    max_concurrency: int | None
    """The replica's own, else the policy's."""
    admin_state: str
    health: str
    health_reason: str
    health_since: float
    """When it entered this health, Unix seconds."""
    move: bool = False
    """Whether its streams are moved, while it is not active."""
    starting: bool = True
    """While it is not ready: whether it has been starting since then, as far as probes could see."""
    startup_s: float | None = None
    """How long its last start took."""
    site: str = ""
    """At which it is; empty: near to every proxy."""
    adapters: list[str] | None = None
    """Those of its fleet's that it serves; ``None``: all."""
    placed: list[AcceleratorPlacement] = field(default_factory=list)
    """By accelerator."""
    url: str = ""

    @property
    def health_for_s(self) -> float:
        """Since it entered this health."""
        return max(wall_clock() - self.health_since, 0.0)


@dataclass(frozen=True, slots=True)
class FleetRow:
    id: int
    name: str
    protocol: str
    aliases: list[str]
    adapters: list[str]
    strategy: str
    revision: int
    version: str
    """``epoch:version`` of the newest snapshot."""
    replicas: list[ReplicaRow] = field(default_factory=list)
    queue: Queue = field(default_factory=Queue)
    locality: Locality = field(default_factory=Locality)
    serves: Serves = "auto"
    """What the policy says of how replicas serve."""
    continues: bool = False
    """Whether its policy continues streams."""
    stand_ins: list[str] = field(default_factory=list)
    """Fleets to which its policy sends requests while no replica takes them."""
    has_expose: bool = True
    """Whether it says what its clients may reach; older fleets do not."""
    scaling: Scaling = field(default_factory=Scaling)
    first_token_objective_s: float | None = None


@dataclass(frozen=True, slots=True)
class KeyRow:
    """One client key in force."""

    id: int
    name: str
    limits: dict[str, int | None] = field(default_factory=dict)
    """By the names of :class:`routing.contract.table.KeyLimits`."""


@dataclass(frozen=True, slots=True)
class AcceleratorRow:
    """One device, and what replicas of all fleets hold on it."""

    name: str
    memory_bytes: int
    usable_bytes: int
    held_bytes: int


@dataclass(frozen=True, slots=True)
class DbSnapshot:
    manifest: str
    """``epoch:version``."""
    fleets: list[FleetRow]
    """By name; replicas by name within."""
    keys: list[KeyRow] = field(default_factory=list)
    """By name."""
    accelerators: list[AcceleratorRow] = field(default_factory=list)
    """By name."""


def read() -> DbSnapshot:
    """Everything, read anew. Raises django.db.Error."""
    return DbReader().read()


class _KnownFleet(NamedTuple):
    version: tuple[int, int]
    """Epoch and table version that its rows were read after."""
    row: FleetRow
    """Without its replicas."""
    replicas: list[ReplicaRow]
    """Not placed yet."""


class DbReader:
    """Reads the database again and again. A fleet's table version grows with every write that shows in it:
    while it has not, only the version is read. Rows that have not changed are the same objects as before.

    Every ALL_EVERY_S everything is read all the same. Used by one thread.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._fleets: dict[int, _KnownFleet] = {}
        self._all_read_at = float("-inf")

    def read(self) -> DbSnapshot:
        """Three queries, and two or three more if anything has changed. Raises django.db.Error."""
        state = current_state()
        now = self._clock()
        if all_again := now - self._all_read_at >= ALL_EVERY_S:
            self._all_read_at = now
        versions = fleet_versions(state.epoch)
        self._read_fleets(
            [
                pk
                for pk, version in versions.items()
                if all_again or pk not in self._fleets or self._fleets[pk].version != version
            ],
            versions,
        )
        self._fleets = {pk: self._fleets[pk] for pk in versions if pk in self._fleets}
        known = self._fleets.values()
        accelerators, placed = _accelerators({one.id for fleet in known for one in fleet.replicas})
        fleets = [
            replace(fleet.row, replicas=[_placed(one, placed.get(one.id)) for one in fleet.replicas])
            for fleet in known
        ]
        return DbSnapshot(str(state), fleets, _keys(), accelerators)

    def _read_fleets(self, changed: Sequence[int], versions: Mapping[int, tuple[int, int]]) -> None:
        if not changed:
            return
        rows = list(Fleet.objects.filter(pk__in=changed))
        replicas = _replicas(changed)
        for fleet in rows:
            policy = with_defaults(fleet.policy, Policy)
            before = self._fleets.get(fleet.pk)
            known = {one.id: one for one in before.replicas} if before is not None else {}
            limit = policy.max_concurrency
            present = [_with_limit(one, limit) for one in replicas.get(fleet.pk, [])]
            epoch = versions[fleet.pk][0]
            self._fleets[fleet.pk] = _KnownFleet(
                versions[fleet.pk],
                _fleet(fleet, policy, epoch),
                [old if (old := known.get(one.id)) == one else one for one in present],
            )


ALL_EVERY_S = 30.0


def _fleet(fleet: Fleet, policy: Policy, epoch: int) -> FleetRow:
    return FleetRow(
        id=fleet.pk,
        name=fleet.name,
        protocol=fleet.protocol,
        aliases=list(fleet.aliases),
        adapters=list(fleet.adapters),
        strategy=policy.strategy,
        revision=fleet.revision,
        version=f"{epoch}:{fleet.table_version}",
        has_expose=fleet.expose is not None,
        queue=policy.queue,
        locality=policy.locality,
        serves=policy.serves,
        continues=policy.continuation == "auto",
        stand_ins=_stand_ins(policy),
        scaling=policy.scaling,
        first_token_objective_s=policy.slo.first_token_s,
    )


def _stand_ins(policy: Policy) -> list[str]:
    if not policy.fallback_budget_percent:
        return []
    return [one.fleet for one in policy.fallback if "no_eligible_replica" in one.causes]


def _keys() -> list[KeyRow]:
    names = ("requests_per_minute", "max_concurrency", "tokens_per_minute")
    in_force = ClientKey.objects.filter(revoked_at=None).order_by("name")
    return [
        KeyRow(pk, name, dict(zip(names, limits, strict=True)))
        for pk, name, *limits in in_force.values_list("id", "name", *names)
    ]


def _replicas(fleet_ids: Sequence[int]) -> dict[int, list[ReplicaRow]]:
    """By fleet, by name within."""
    values = (
        Replica.objects.filter(fleet_id__in=fleet_ids)
        .order_by("fleet_id", "name")
        .values_list(
            "fleet_id",
            "id",
            "uid",
            "name",
            "weight",
            "hardware__weight",
            "max_concurrency",
            "site",
            "adapters",
            "admin_state",
            "move",
            "created_at",
            "health__state",
            "health__reason",
            "health__since",
            "health__starting",
            "health__startup_s",
            "url",
        )
    )
    found: dict[int, list[ReplicaRow]] = {}
    for row in values:
        fleet_id, pk, uid, name, own, hardware, limit, site, adapters, admin, move, registered = row[:12]
        health, reason, since, starting, startup_s, url = row[12:]
        weight = own if own is not None else hardware if hardware is not None else 1.0
        found.setdefault(fleet_id, []).append(
            ReplicaRow(
                id=pk,
                uid=str(uid),
                name=name,
                weight=weight,
                max_concurrency=limit,
                admin_state=admin,
                move=move,
                health=health or "checking",
                health_reason=reason or "",
                health_since=since.timestamp() if since else registered.timestamp(),
                starting=starting is not False,
                startup_s=startup_s,
                site=site,
                adapters=adapters,
                url=url,
            )
        )
    return found


def _accelerators(
    present: Collection[int],
) -> tuple[list[AcceleratorRow], dict[int, list[AcceleratorPlacement]]]:
    """Every device, and where these replicas are, by their ids. A query, two if there are devices."""
    devices = list(Accelerator.objects.order_by("name"))
    held = dict.fromkeys((device.name for device in devices), 0)
    placed: dict[int, list[AcceleratorPlacement]] = {}
    links = Replica.accelerators.through.objects.order_by("accelerator__name").values_list(
        *("accelerator__name", "replica_id", "replica__memory_bytes"),
        *("replica__request_bytes", "replica__request_bytes_per_work"),
    )
    for name, replica_id, memory, fixed, per_work in links if devices else ():
        if name in held and replica_id in present:  # else made between the queries
            held[name] += memory or 0
            placed.setdefault(replica_id, []).append(AcceleratorPlacement(name, fixed, per_work))
    rows = [
        AcceleratorRow(device.name, device.memory_bytes, usable_bytes(device.spec), held[device.name])
        for device in devices
    ]
    return rows, placed


def _placed(replica: ReplicaRow, places: list[AcceleratorPlacement] | None) -> ReplicaRow:
    return replica if places is None else replace(replica, placed=places)


def _with_limit(replica: ReplicaRow, limit: int | None) -> ReplicaRow:
    """``limit``: of its fleet, for one that has none of its own."""
    if limit is None or replica.max_concurrency is not None:
        return replica
    return replace(replica, max_concurrency=limit)
