"""Fallbacks between fleets: what a list of them may name. Pure.

A request falls back along its own fleet's list alone, so no request goes round in a loop. A list that leads
back to its fleet is refused all the same: each of them would wait for another that waits for it.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from routing.contract.field_rules import (
    FieldProblem,
    Problems,
    below,
    did_you_mean,
    enough,
    listed,
    shortened,
)


class FleetLinks(NamedTuple):
    """What matters of a fleet here."""

    protocol: str
    fallbacks: tuple[str, ...] = ()
    """Names of fleets, in order."""


def names_of(entries: object) -> list[str]:
    """The fleets that a list of fallbacks names, as far as it is valid."""
    return [name for _, name in _named(entries)]


def _always(name: str) -> bool:
    return True


def fallback_problems(
    fleet: str,
    entries: object,
    all_links: Mapping[str, FleetLinks],
    at: str,
    may_see: Callable[[str], bool] = _always,
) -> Problems:
    """Fleets that do not exist, have another protocol, are named twice, or lead back to ``fleet``.

    ``entries``: its list, as it was written. ``all_links``: of every fleet, this one included, with the lists
    that are to be. ``at``: JSON pointer to the list. ``may_see``: whether a fleet may be named to who reads
    this; for others it does not exist.
    """
    problems: Problems = []
    seen: set[str] = set()
    for index, name in _named(entries):
        if enough(problems):
            break
        message = _objection(fleet, name, seen, all_links, may_see)
        if message:
            problems.append(FieldProblem(f"{below(at, index)}/fleet", message))
        seen.add(name)
    return problems


def _objection(
    fleet: str,
    name: str,
    seen: set[str],
    all_links: Mapping[str, FleetLinks],
    may_see: Callable[[str], bool],
) -> str:
    shown = shortened(name)
    if name == fleet:
        return f"fleet {shown} cannot be its own fallback: name another fleet"
    if name in seen:
        return f"fleet {shown} is listed twice: remove one, and give the other the causes of both"
    links = all_links.get(name)
    if links is None or not may_see(name):
        others = {one for one in all_links if one != fleet and may_see(one)}
        there = f"; there are: {listed(others)}" if others else ""
        hint = did_you_mean(name, others) or f"{there}; add it first, or remove it from the list"
        return f'unknown fleet "{shown}"{hint}'
    own = all_links[fleet].protocol if fleet in all_links else links.protocol
    if links.protocol != own:
        return (
            f"fleet {shown} has the protocol {links.protocol}, and requests of fleet {fleet} are of "
            f"{own}: name a fleet of that protocol"
        )
    way = _way_back(name, fleet, all_links)
    if way:
        loop = " → ".join(one if may_see(one) else "…" for one in (fleet, *way))
        return f"leads back to fleet {fleet} ({loop}): remove one of these fallbacks"
    return ""


def _way_back(begin: str, fleet: str, all_links: Mapping[str, FleetLinks]) -> list[str]:
    """The shortest way from ``begin`` to ``fleet`` along the lists, both included; empty: there is none."""
    came_from: dict[str, str] = {begin: ""}
    ahead = [begin]
    for name in ahead:
        for after in all_links[name].fallbacks if name in all_links else ():
            if after not in came_from:
                came_from[after] = name
                ahead.append(after)
    if fleet not in came_from:
        return []
    way = [fleet]
    while came_from[way[-1]]:
        way.append(came_from[way[-1]])
    return way[::-1]


def _named(entries: object) -> Iterator[tuple[int, str]]:
    for index, entry in enumerate(entries if isinstance(entries, list) else []):
        name = entry.get("fleet") if isinstance(entry, Mapping) else None
        if isinstance(name, str):
            yield index, name
