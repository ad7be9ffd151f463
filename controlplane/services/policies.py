"""Changing a fleet's policy, and going back to how it was."""

from collections.abc import Iterable, Mapping
from typing import Any

from controlplane.models import Event, Fleet, PolicyRevision, Replica
from controlplane.services import dropping, effective_settings, fallbacks, revisions
from controlplane.services.changes import Change, change_of
from controlplane.services.errors import FieldError, Invalid, NotFound
from controlplane.services.lookup import fleet_named
from controlplane.services.unit_of_work import UnitOfWork, check_version, unit_of_work
from controlplane.services.validation import accepted_policy, refuse
from routing.contract.defaults import without_defaults


def change(
    fleet_name: str, changes: Mapping[str, Any], actor: str, *, if_version: int | None = None
) -> Change:
    """Merges ``changes`` into the policy (RFC 7396). A new strategy forgets the old one's parameters.

    Raises NotFound, Invalid, Stale, Conflict.
    """
    with unit_of_work(actor) as write:
        fleet = fleet_named(fleet_name, lock=True)
        check_version(f"The policy of {fleet.name}", fleet.edit_version, if_version)
        _refuse_odd_nulls(changes)
        lines = put(write, fleet, checked_for_storage(_merged(fleet.policy, changes)))
        return change_of(fleet, lines, write)


def checked_for_storage(settings: Mapping[str, Any]) -> dict[str, Any]:
    """A whole policy's settings as the row keeps them. Raises Invalid."""
    return without_defaults(effective_settings.policy_of(accepted_policy(settings)))


def put(write: UnitOfWork, fleet: Fleet, policy: Mapping[str, Any]) -> list[str]:
    """Makes ``policy`` (checked, sparse) the fleet's. Returns what changed; nothing: no revision either."""
    before = effective_settings.effective(effective_settings.policy_of(fleet.policy))
    after = effective_settings.effective(effective_settings.policy_of(policy))
    lines = effective_settings.differences(before, after)
    if not lines:
        return []
    summary = "; ".join(lines)
    old = fleet.policy
    write.fallbacks.policy(fleet.name, old, policy, "")
    number = revisions.record(write, fleet, summary, policy=policy)
    write.audit("policies.change", fleet.name, old, policy)
    text = f"{write.actor} changed the policy of {fleet.name}: {summary} (revision {number})"
    write.event(Event.Kind.POLICY, text, fleet=fleet, revision=number)
    return lines


def restore(
    fleet_name: str, number: int, actor: str, *, if_version: int | None = None, confirm: str = ""
) -> Change:
    """Policy and weights as revision ``number`` had them, as a new revision.

    Replicas that revision did not know keep their weight. Raises NotFound, Invalid (its strategy is
    gone), Stale, Conflict, and NeedsConfirmation where it had weights of 0 for most of what serves;
    ``confirm``: its token.
    """
    with unit_of_work(actor) as write, dropping.confirmed(confirm):
        fleet = fleet_named(fleet_name, lock=True)
        check_version(f"The policy of {fleet.name}", fleet.edit_version, if_version)
        revision = revision_numbered(fleet, number)
        policy = checked_for_storage(revision.policy)
        weights = _other_weights(fleet, revision.weights)
        lines = _restore_lines(fleet, policy, weights)
        for replica, weight in weights:
            write.save_replica(replica, weight=weight)
        if lines:
            _record_restore(write, fleet, number, policy, lines)
        return change_of(fleet, lines, write)


def revision_numbered(fleet: Fleet, number: int) -> PolicyRevision:
    revision = PolicyRevision.objects.filter(fleet=fleet, number=number).first()
    if revision is None:
        raise NotFound(f"Fleet {fleet.name} has no revision {number}; its newest is {fleet.revision}.")
    return revision


def would_change(fleet: Fleet, revision: PolicyRevision) -> list[str]:
    """What :func:`restore` would change at this moment, one line each. Raises Invalid as it does."""
    policy = checked_for_storage(revision.policy)
    refuse(fallbacks.problems_now(fleet, policy, "/fallback"))
    return _restore_lines(fleet, policy, _other_weights(fleet, revision.weights))


def _restore_lines(
    fleet: Fleet, policy: Mapping[str, Any], weights: Iterable[tuple[Replica, float | None]]
) -> list[str]:
    before = effective_settings.effective(effective_settings.policy_of(fleet.policy))
    after = effective_settings.effective(effective_settings.policy_of(policy))
    lines = effective_settings.differences(before, after)
    for replica, weight in weights:
        lines += effective_settings.differences(
            {"weight": replica.weight}, {"weight": weight}, f"{replica.name}."
        )
    return lines


def _record_restore(
    write: UnitOfWork, fleet: Fleet, number: int, policy: Mapping[str, Any], lines: list[str]
) -> None:
    old = fleet.policy
    write.fallbacks.policy(fleet.name, old, policy, "")
    summary = f"restored revision {number}: {'; '.join(lines)}"
    new_number = revisions.record(write, fleet, summary, policy=policy)
    write.audit("policies.restore", f"{fleet.name}@{number}", old, policy)
    text = f"{write.actor} restored revision {number} of {fleet.name} as revision {new_number}"
    write.event(Event.Kind.POLICY, text, fleet=fleet, revision=new_number)


def _other_weights(fleet: Fleet, weights: Mapping[str, float | None]) -> list[tuple[Replica, float | None]]:
    """Replicas that a revision knew with another weight than they have, and that weight."""
    return [
        (replica, weights[replica.name])
        for replica in Replica.objects.filter(fleet=fleet).order_by("name")
        if replica.name in weights and replica.weight != weights[replica.name]
    ]


def _merged(stored: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    strategy = changes.get("strategy", stored.get("strategy"))
    forget = strategy != stored.get("strategy") and "strategy" in changes
    kept = {name: value for name, value in stored.items() if not (forget and name == "parameters")}
    return effective_settings.merged(kept, changes)


def _refuse_odd_nulls(changes: Mapping[str, Any]) -> None:
    """``null`` goes back to the default of a field; a field that does not exist has none."""
    known = effective_settings.effective(effective_settings.policy_of({}))
    odd = [name for name, value in changes.items() if value is None and name not in known]
    if odd:
        raise Invalid([FieldError(f"/{name}", f'unknown field "{name}"') for name in odd])
