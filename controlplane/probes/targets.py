"""Probe targets: which replicas to probe and how, read from the database."""

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec

from controlplane.models import Fleet, Replica
from controlplane.probes.schedule import Timing
from routing.contract.decode_errors import DECODE_ERRORS
from routing.contract.defaults import with_defaults
from routing.contract.metrics_pages import LOAD_PAGE_S
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
    for_s: float
    """Since it entered that state."""
    starting: bool
    """:attr:`controlplane.models.ReplicaHealth.starting`."""
    in_startup_budget: bool
    timing: Timing


def timings() -> dict[str, Timing]:
    """Every replica's timing by uid, in two queries. Raises django.db.Error."""
    fleets = {}
    for fleet in Fleet.objects.all():
        with _unusable_settings_logged(fleet):
            checks = _checks(fleet, "http://host")
            fleets[fleet.pk] = (checks.probe.period_s, _longest_s(checks))
    found = {}
    rows = Replica.objects.values_list("uid", "fleet_id", "health__has_passed")
    for uid, fleet_id, has_passed in rows:
        if fleet_id in fleets:  # else created between the two queries
            period_s, longest_s = fleets[fleet_id]
            found[str(uid)] = Timing(period_s, not has_passed, longest_s)
    return found


def load(uids: Sequence[str]) -> dict[str, DueReplica]:
    """The replicas that still exist, by uid. Raises django.db.Error."""
    now = time.time()
    rows = Replica.objects.filter(uid__in=uids).select_related("fleet", "health")
    found = {}
    for replica in rows:
        with _unusable_settings_logged(replica.fleet):
            found[str(replica.uid)] = _target(replica, now)
    return found


def _target(replica: Replica, now: float) -> DueReplica:
    health = getattr(replica, "health", None)  # RelatedObjectDoesNotExist is an AttributeError
    state: Health = msgspec.convert(health.state, Health) if health else "checking"
    has_passed = health.has_passed if health else False
    since = health.since if health else replica.created_at
    for_s = now - since.timestamp()
    checks = _checks(replica.fleet, replica.url)
    probe = checks.probe
    return DueReplica(
        uid=str(replica.uid),
        replica_id=replica.pk,
        name=f"{replica.fleet.name}/{replica.name}",
        url=replica.url,
        checks=checks,
        tls=with_defaults(replica.fleet.tls, Tls),
        credential=replica.credential or replica.fleet.credential,
        state=state,
        has_passed=has_passed,
        for_s=for_s,
        starting=health.starting if health else True,
        in_startup_budget=_in_budget(state, for_s, probe.startup_budget_s),
        timing=Timing(probe.period_s, not has_passed, _longest_s(checks)),
    )


@contextmanager
def _unusable_settings_logged(fleet: Fleet) -> Iterator[None]:
    """One fleet's row that no service verb wrote must not keep all others from being probed."""
    try:
        yield
    except (ValueError, *DECODE_ERRORS) as error:
        logger.error("fleet %s cannot be probed: %s", fleet.name, error)


def _in_budget(state: Health, for_s: float, budget_s: float) -> bool:
    """Once down without a pass, the budget is spent, however short a time ago that was."""
    return for_s < budget_s if state == "checking" else state != "down"


def _checks(fleet: Fleet, url: str) -> Checks:
    probe = with_defaults(fleet.probe, Probe)
    protocol: ApiProtocol = msgspec.convert(fleet.protocol, ApiProtocol)
    return checks_of(probe, protocol, url, fleet.served_model or fleet.name)


def _longest_s(checks: Checks) -> float:
    """Readiness, and perhaps liveness after it; the page of its load beside them."""
    questions = 1 if checks.requests["liveness"] == checks.requests["readiness"] else 2
    longest_s = questions * checks.timeout_s
    return longest_s if checks.load is None else max(longest_s, LOAD_PAGE_S)
