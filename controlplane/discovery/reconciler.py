"""Reconciler: from a listing and what is there to what is added, changed, drained and removed. Pure.

Theory. A source is evidence, not an order: one lost DELETED, one truncated list or one API server that
answers with nothing must not empty a fleet. So nothing leaves by its absence from an event, only

- by the source's word for it by name (``leaving``), or a size declared beside a listing that has just it;
- by absence from two complete listings in a row, RECHECK_S apart at least, where the listing is believed;
- by absence from two complete listings that both found it gone by probes as well, believed or not.

A listing is not believed where it is empty, or has less than half of the longest one of SIZES_S: its
replicas are frozen. Those that leave by absence never take the ready ones below half of what is listed, so
that a full rollout waits for its new replicas. A source that does not answer changes nothing.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import replace

from controlplane.discovery.listing import Listing, Memory, Missing, OwnReplica, Plan
from routing.contract.fleet_file import ReplicaEntry
from routing.contract.fleet_file.sources.source_rules import PEOPLES_FIELDS

RECHECK_S = 1.0
SIZES_S = 300.0
DRAIN_S = 300.0
"""A drained replica that never comes to rest is removed after this."""
TWICE = 2


def reconcile(
    memory: Memory,
    listing: Listing | None,
    own: Mapping[str, OwnReplica],
    others: Collection[str],
    now: float,
) -> tuple[Memory, Plan]:
    """One step. ``listing``: ``None`` while the source does not answer. ``own``: all replicas that it has
    registered; ``others``: names of the fleet's other replicas, which are never touched."""
    at_rest = frozenset(name for name, one in own.items() if _at_rest(one))
    if listing is None:
        return memory, Plan(remove=at_rest, frozen=_silence(memory, own, now), hurry=bool(own))
    listed = {name: entry for name, entry in listing.entries.items() if name not in listing.leaving}
    taken = frozenset(listed.keys() & frozenset(others))
    listed = {name: entry for name, entry in listed.items() if name not in taken}
    believed = True
    declared = listing.complete and listing.declared_size == len(listing.entries)
    if listing.complete:
        believed = declared or _is_believable(memory, len(listed), own, listing.leaving, now)
        memory = _remember(memory, listed, own, believed, declared, now)
    elif memory.missing:
        still = own.keys() - listed.keys()
        memory = replace(memory, missing={name: one for name, one in memory.missing.items() if name in still})
    named = listing.leaving & own.keys()
    if declared:
        named |= own.keys() - listed.keys()
    confirmed = frozenset(
        name for name, one in memory.missing.items() if one.gone >= TWICE and own[name].gone
    )
    doubted = frozenset(memory.missing) - named - confirmed
    drain = _undrained(named, own)
    if listing.complete and believed:
        drain |= _leave_by_absence(memory, doubted, listed, own)
    remove = at_rest - listed.keys() | confirmed - listed.keys()
    remove |= frozenset(name for name in named if own[name].gone)
    drain -= remove
    resume = frozenset(name for name in listed if name in own and own[name].drained_by_source_s is not None)
    plan = Plan(
        add=tuple(entry for name, entry in listed.items() if name not in own),
        change=tuple(
            entry for name, entry in listed.items() if name in own and _differs(entry, own[name].entry)
        ),
        drain=drain,
        resume=resume,
        remove=remove - resume,
        taken=taken,
        frozen="" if believed or not doubted else _shrunk(memory, len(listed), doubted, now),
        hurry=bool(memory.missing.keys() - remove),
    )
    return memory, plan


def _is_believable(
    memory: Memory, size: int, own: Mapping[str, OwnReplica], leaving: Collection[str], now: float
) -> bool:
    staying = sum(one.drained_by_source_s is None and name not in leaving for name, one in own.items())
    before = max((number for at, number in memory.sizes if at > now - SIZES_S), default=staying)
    return staying == 0 or (size > 0 and 2 * size >= before)


def _remember(
    memory: Memory,
    listed: Mapping[str, ReplicaEntry],
    own: Mapping[str, OwnReplica],
    believed: bool,
    declared: bool,
    now: float,
) -> Memory:
    recheck = memory.seen_at is None or now - memory.seen_at >= RECHECK_S
    missing = {
        name: _missed(memory.missing.get(name), own[name].gone, recheck, now)
        for name in own.keys() - listed.keys()
    }
    sizes = tuple(size for size in memory.sizes if size[0] > now - SIZES_S)
    if declared:
        sizes = ()
    if believed and listed:
        # As long as the last one: only its time is new.
        sizes = (*(size for size in sizes if size[1] > len(listed)), (now, len(listed)))
    return Memory(seen_at=now if recheck else memory.seen_at, sizes=sizes, missing=missing)


def _missed(before: Missing | None, gone: bool, counts: bool, now: float) -> Missing:
    if before is None:
        return Missing(since=now, gone=int(gone))
    if not counts:
        return before if gone else replace(before, gone=0)
    return Missing(before.since, before.listings + 1, before.gone + 1 if gone else 0)


def _leave_by_absence(
    memory: Memory,
    doubted: Collection[str],
    listed: Mapping[str, ReplicaEntry],
    own: Mapping[str, OwnReplica],
) -> frozenset[str]:
    """Those missing twice, as far as enough ready ones remain; the longest missing first."""
    ready = sum(one.ready and one.active for one in own.values())
    spare = ready - max(math.ceil(len(listed) / 2), 1)
    due = [name for name in doubted if memory.missing[name].listings >= TWICE]
    leaving = set()
    for name in sorted(_undrained(due, own), key=lambda name: (memory.missing[name].since, name)):
        serves = own[name].ready and own[name].active
        if serves and spare <= 0:
            continue
        spare -= serves
        leaving.add(name)
    return frozenset(leaving)


def _undrained(names: Collection[str], own: Mapping[str, OwnReplica]) -> frozenset[str]:
    return frozenset(name for name in names if own[name].drained_by_source_s is None)


def _at_rest(one: OwnReplica) -> bool:
    """Drained for its source, and done; one that a person has activated since is kept."""
    drained_s = one.drained_by_source_s
    return drained_s is not None and not one.active and (one.safe_to_stop or one.gone or drained_s >= DRAIN_S)


def _differs(wanted: ReplicaEntry, there: ReplicaEntry) -> bool:
    return any(
        getattr(wanted, name) != getattr(there, name)
        for name in ReplicaEntry.__struct_fields__
        if name not in PEOPLES_FIELDS
    )


def _silence(memory: Memory, own: Mapping[str, OwnReplica], now: float) -> str:
    if not own:
        return ""
    if memory.seen_at is None:
        return "the source has not answered yet: its replicas stay as they are"
    return f"the source has not answered for {now - memory.seen_at:.0f} s: its replicas stay as they are"


def _shrunk(memory: Memory, size: int, doubted: Collection[str], now: float) -> str:
    oldest_s = now - min(memory.missing[name].since for name in doubted)
    what = "lists nothing" if size == 0 else f"lists {size} only"
    return (
        f"the source {what}: {len(doubted)} replicas that it last listed {oldest_s:.0f} s ago stay until "
        "probes too find them gone, or the source says that they go"
    )
