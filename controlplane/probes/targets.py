"""Probe targets: which replicas to probe and how, read from the database."""

import logging
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec
from django.db.models import Count, Q

from controlplane.models import Fleet, Replica
from controlplane.probes.schedule import Timing
from controlplane.publishing.snapshots import current_state, fleet_versions
from routing.contract.decode_errors import DECODE_ERRORS
from routing.contract.defaults import with_defaults
from routing.contract.flap_damping import NEVER_LOST, FlapPenalty, is_short, passes_needed
from routing.contract.probe import Probe
from routing.contract.probe_presets import Checks, checks_of
from routing.contract.table import ApiProtocol, Health, Tls

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DueReplica:
    """One replica to be probed, with the health it has so far."""

    uid: str
    replica_id: int
    name: str
    """``fleet/replica``."""
    url: str
    checks: Checks
    tls: Tls
    credential: str
    state: Health
    has_passed: bool
    since_s: float
    """When it entered that state, by the wall clock."""
    starting: bool
    """:attr:`controlplane.models.ReplicaHealth.starting`."""
    timing: Timing
    flaps: FlapPenalty = NEVER_LOST
    """By the wall clock."""
    is_needed: bool = False
    """Whether so few of its fleet are ready that it is not held back."""

    @property
    def rise(self) -> int:
        """Passes in a row that it needs to be ready again."""
        probe = self.checks.probe
        return probe.rise if self.is_needed else passes_needed(probe, self.flaps, time.time())

    @property
    def for_s(self) -> float:
        """How long it has been in that state."""
        return time.time() - self.since_s

    @property
    def in_startup_budget(self) -> bool:
        """Once down without a pass, the budget is spent, however short a time ago that was."""
        if self.state == "checking":
            return self.for_s < self.checks.probe.startup_budget_s
        return self.state != "down"


@dataclass(slots=True)
class _FleetProbe:
    """What one fleet's replicas have in common."""

    name: str
    key: tuple[bytes, str, str]
    """Probe settings as JSON, protocol, model: with a URL, all that checks are made of."""
    tls: Tls
    credential: str


_ROW = (
    *("uid", "pk", "name", "url", "credential", "fleet_id", "created_at"),
    *("health__state", "health__has_passed", "health__since", "health__starting"),
    *("health__flap_penalty", "health__lost_at"),
)


def timings() -> dict[str, Timing]:
    """Every replica's timing by uid, in two queries. Raises django.db.Error."""
    return {uid: timing for of in timings_by_fleet().values() for uid, timing in of.items()}


def timings_by_fleet(fleet_ids: Collection[int] | None = None) -> dict[int, dict[str, Timing]]:
    """By the ids of these fleets, of all by default, timing by uid. Two queries. Raises django.db.Error."""
    fleets, rows = Fleet.objects.all(), Replica.objects.all()
    if fleet_ids is not None:
        fleets, rows = fleets.filter(pk__in=fleet_ids), rows.filter(fleet_id__in=fleet_ids)
    known = {}
    for fleet in fleets:
        with _unusable_settings_logged(fleet):
            checks = _checks(*_fleet_probe(fleet).key, "http://host")
            pair = (checks.probe.period_s, checks.longest_s)
            # The replicas of a fleet are alike in this: one object for each kind.
            known[fleet.pk] = (Timing(pair[0], False, pair[1]), Timing(pair[0], True, pair[1]))
    found: dict[int, dict[str, Timing]] = {pk: {} for pk in known}
    for uid, fleet_id, has_passed in rows.values_list("uid", "fleet_id", "health__has_passed"):
        if fleet_id in known:  # else created between the two queries
            found[fleet_id][str(uid)] = known[fleet_id][not has_passed]
    return found


def load(uids: Sequence[str]) -> dict[str, DueReplica]:
    """The replicas that still exist, by uid, in two queries. Raises django.db.Error."""
    return {uid: target for uid, (_, target) in _read(uids).items()}


class TargetCache:
    """The same, remembered while the table version of a replica's fleet, which grows with every write that a
    probe must know of, is what it was: then nothing but the versions is read. Safe in threads."""

    MOST = 65_536

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, tuple[int, int], DueReplica]] = {}
        """By uid: its fleet's id, the version that it was read after, and the target."""

    def load(self, uids: Sequence[str]) -> dict[str, DueReplica]:
        """See :func:`load`."""
        versions = fleet_versions(current_state().epoch)
        found, stale = {}, []
        for uid in uids:
            known = self._known.get(uid)
            if known is not None and versions.get(known[0]) == known[1]:
                found[uid] = known[2]
            else:
                stale.append(uid)
        if stale:
            if len(self._known) > self.MOST:
                self._known.clear()
            for uid, (fleet_id, target) in _read(stale).items():
                found[uid] = target
                if fleet_id in versions:
                    self._known[uid] = (fleet_id, versions[fleet_id], target)
        return found


def _read(uids: Sequence[str]) -> dict[str, tuple[int, DueReplica]]:
    """With the ids of their fleets."""
    rows = list(Replica.objects.filter(uid__in=uids).values_list(*_ROW))
    fleets = {}
    for fleet in Fleet.objects.filter(pk__in={row[5] for row in rows}):
        with _unusable_settings_logged(fleet):
            fleets[fleet.pk] = _fleet_probe(fleet)
            _checks(*fleets[fleet.pk].key, "http://host")
    short = _short({row[5] for row in rows if row[12] is not None})
    found = {}
    for row in rows:
        if (of := fleets.get(row[5])) is not None:
            found[str(row[0])] = (row[5], _target(row, of, row[5] in short))
    return found


def _short(fleet_ids: Collection[int]) -> set[int]:
    """Those of these fleets of which so few replicas are ready that none is held back."""
    if not fleet_ids:
        return set()
    counted = (
        Replica.objects.filter(fleet__in=fleet_ids, admin_state="active")
        .order_by()
        .values_list("fleet_id")
        .annotate(active=Count("pk"), ready=Count("pk", filter=Q(health__state="ready")))
    )
    return {fleet_id for fleet_id, active, ready in counted if is_short(ready, active)}


def _fleet_probe(fleet: Fleet) -> _FleetProbe:
    key = (msgspec.json.encode(fleet.probe), fleet.protocol, fleet.served_model or fleet.name)
    return _FleetProbe(fleet.name, key, with_defaults(fleet.tls, Tls), fleet.credential)


def _target(row: tuple[Any, ...], of: _FleetProbe, is_needed: bool) -> DueReplica:
    uid, pk, name, url, credential, _, created_at, state, has_passed, since, starting, penalty, lost_at = row
    if state is None:  # it has no row of its health yet
        state, has_passed, since, starting = "checking", False, created_at, True
    checks = _checks(*of.key, url)
    probe = checks.probe
    return DueReplica(
        uid=str(uid),
        replica_id=pk,
        name=f"{of.name}/{name}",
        url=url,
        checks=checks,
        tls=of.tls,
        credential=credential or of.credential,
        state=msgspec.convert(state, Health),
        has_passed=has_passed,
        since_s=since.timestamp(),
        starting=starting,
        timing=Timing(probe.period_s, not has_passed, checks.longest_s),
        flaps=FlapPenalty(penalty, lost_at.timestamp()) if lost_at is not None else NEVER_LOST,
        is_needed=is_needed,
    )


@contextmanager
def _unusable_settings_logged(fleet: Fleet) -> Iterator[None]:
    """One fleet's row that no service verb wrote must not keep all others from being probed."""
    try:
        yield
    except (ValueError, *DECODE_ERRORS) as error:
        logger.error("fleet %s cannot be probed: %s", fleet.name, error)


@lru_cache(maxsize=32768)
def _checks(probe_json: bytes, protocol: str, model: str, url: str) -> Checks:
    """Made once of the same settings: two thousand a second would cost a good part of a core."""
    probe = with_defaults(msgspec.json.decode(probe_json), Probe)
    return checks_of(probe, msgspec.convert(protocol, ApiProtocol), url, model)
