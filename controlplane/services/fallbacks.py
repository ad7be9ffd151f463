"""Fallbacks: what a write changes of the lists by which fleets fall back to others.

What they may name depends on other fleets, which the same write may make, change or remove (a fleet file does
all of it), so they are looked at when all is written. A fleet that others fall back to stays, with its
protocol, until they no longer do: nobody is to lose a fallback unnoticed.

A list sends requests to another fleet, so who adds to it needs a role there: *operate*, and *administer* to
let those in whose client key is for the first fleet alone.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from controlplane.access import viewer
from controlplane.access.roles import Role
from controlplane.models import Fleet
from controlplane.services.errors import Conflict, FieldError, Forbidden
from controlplane.services.validation import refuse
from routing.contract.fallbacks import FleetLinks, fallback_problems, names_of
from routing.contract.field_rules import FieldProblem, below

_LONGEST_LIST = 5
"""Of fleets that a message names."""


class FallbackChanges:
    """Of one unit of work."""

    def __init__(self) -> None:
        self._lists: dict[str, tuple[list[dict[str, Any]], str]] = {}
        self._protocols: set[str] = set()
        self._removed: set[str] = set()

    def policy(self, fleet: str, before: Mapping[str, Any], after: Mapping[str, Any], at: str) -> None:
        """Its policy is another one. ``at``: JSON pointer to what was sent of it."""
        listed = before.get("fallback", [])
        if after.get("fallback", []) != listed:
            self._lists.setdefault(fleet, (listed, below(at, "fallback")))

    def protocol(self, fleet: str) -> None:
        """It has another one."""
        self._protocols.add(fleet)

    def removed(self, fleet: str) -> None:
        self._removed.add(fleet)

    def refuse(self) -> None:
        """Looks at the rows as they are now. Raises Invalid, Conflict, Forbidden."""
        if not (self._lists or self._protocols or self._removed):
            return
        rows = dict(Fleet.objects.values_list("name", "policy"))
        links = links_of_all()
        for name, (before, at) in self._lists.items():
            if name in rows:
                entries = rows[name].get("fallback", [])
                refuse(list_problems(name, entries, before, links, at))
                _refuse_beyond_role(entries, before, at)
        refuse(self._protocol_problems(rows, links))
        for name in sorted(self._removed - rows.keys()):
            _refuse_removal(name, links)
        self._lists, self._protocols, self._removed = {}, set(), set()

    def _protocol_problems(
        self, rows: Mapping[str, Mapping[str, Any]], links: Mapping[str, FleetLinks]
    ) -> Iterator[FieldProblem]:
        for name in sorted(self._protocols & rows.keys()):
            protocol = links[name].protocol
            others = [to for to in links[name].fallbacks if to in links and links[to].protocol != protocol]
            if others:
                message = (
                    f"fleet {name} falls back to {_named(others)}, of another protocol: change its policy's "
                    "fallback first"
                )
                yield FieldProblem("/protocol", message)
            of = [one for one in _falling_back_to(name, links) if links[one].protocol != protocol]
            if of:
                message = (
                    f"fleet {name} is a fallback of {_named(of)}, of another protocol: remove it from the "
                    "fallback of their policies first"
                )
                yield FieldProblem("/protocol", message)


def list_problems(
    fleet: str,
    entries: list[dict[str, Any]],
    before: list[dict[str, Any]],
    links: Mapping[str, FleetLinks],
    at: str,
) -> list[FieldProblem]:
    """What is wrong with a list. ``before``: as it was, whose fleets may be named by whoever writes."""
    named = set(names_of(before))
    all_links = {**links, fleet: links[fleet]._replace(fallbacks=tuple(names_of(entries)))}
    return fallback_problems(
        fleet, entries, all_links, at, lambda name: name in named or viewer.may_see(name)
    )


def problems_now(fleet: Fleet, policy: Mapping[str, Any], at: str) -> list[FieldProblem]:
    """Of a policy that would be the fleet's."""
    entries, before = policy.get("fallback", []), fleet.policy.get("fallback", [])
    return [] if entries == before else list_problems(fleet.name, entries, before, links_of_all(), at)


def problems_of_new(settings: Mapping[str, Any], at: str) -> list[FieldProblem]:
    """Of a fleet that would be made with these settings."""
    entries = settings.get("policy", {}).get("fallback", [])
    if not entries:
        return []
    links = {**links_of_all(), settings["name"]: FleetLinks(settings["protocol"])}
    return list_problems(settings["name"], entries, [], links, at)


def links_of_all() -> dict[str, FleetLinks]:
    """Fleet → its protocol and the fleets that it falls back to. One query."""
    rows = Fleet.objects.values_list("name", "protocol", "policy")
    return {
        name: FleetLinks(protocol, tuple(names_of(policy.get("fallback", []))))
        for name, protocol, policy in rows
    }


def _falling_back_to(fleet: str, links: Mapping[str, FleetLinks]) -> list[str]:
    return sorted(name for name, one in links.items() if fleet in one.fallbacks)


def _refuse_removal(fleet: str, links: Mapping[str, FleetLinks]) -> None:
    of = _falling_back_to(fleet, links)
    if of:
        raise Conflict(
            f"Fleet {fleet} is a fallback of {_named(of)}: remove it from the fallback of their policies "
            "first."
        )


def _refuse_beyond_role(entries: list[dict[str, Any]], before: list[dict[str, Any]], at: str) -> None:
    """Of what is new in a list."""
    known = {entry["fleet"]: bool(entry.get("included")) for entry in before}
    for index, entry in enumerate(entries):
        name, included = entry["fleet"], bool(entry.get("included"))
        if included and not known.get(name, False) and not viewer.has_role(name, Role.ADMINISTER):
            words = (
                f"included lets keys for another fleet into fleet {name}: that needs administer there. "
                "Ask an administrator."
            )
            raise Forbidden(words, [FieldError(f"{below(at, index)}/included", words)])
        if name not in known and not viewer.has_role(name, Role.OPERATE):
            words = f"requests are to go to fleet {name}: that needs operate there. Ask an administrator."
            raise Forbidden(words, [FieldError(f"{below(at, index)}/fleet", words)])


def _named(fleets: list[str]) -> str:
    seen = [f"fleet {name}" for name in fleets if viewer.may_see(name)][:_LONGEST_LIST]
    if len(seen) == len(fleets):
        return ", ".join(seen)
    return ", ".join([*seen, "other fleets" if seen else viewer.UNSEEN])
