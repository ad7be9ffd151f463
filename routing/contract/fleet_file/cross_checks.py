"""Cross-checks between the entries of a fleet file.

Names, aliases, adapters, hardware, the default fleet, and what devices hold
(:mod:`routing.contract.fleet_file.devices`).

Works on the unvalidated file, so that these problems are reported together with those of single
fields. Values of a wrong type are skipped here and reported there.
"""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import msgspec

from routing.contract.accelerators import MemoryClaim
from routing.contract.fallbacks import FleetLinks, fallback_problems, names_of
from routing.contract.field_rules import FieldProblem, Problems, did_you_mean, enough, listed, shortened
from routing.contract.fleet_file.devices import device_problems
from routing.contract.fleet_file.raw_entries import RawEntry, entries_of, texts_of
from routing.contract.matches import describe_match, normalised
from routing.contract.names import alias_problem
from routing.contract.policy_rules import POLICY, StrategyRules, strategy_problems
from routing.contract.table import AcceleratorSpec, Match

OTHER_NAMES = {"aliases": "alias", "adapters": "adapter"}
"""Fields of a fleet that list names which clients may say instead of its own → the word for one of them."""


class ExistingState(NamedTuple):
    """What already exists in the control plane that the file is to be applied to."""

    hardware: Collection[str] = ()
    """Classes of hardware."""
    aliases: Mapping[str, Collection[str]] = {}
    """Fleet → its aliases. Fleets in the file are skipped: the file replaces them."""
    adapters: Mapping[str, Collection[str]] = {}
    """Fleet → its adapters; likewise."""
    matches: Mapping[Match, str] = {}
    """Match → the fleet that it routes to; likewise."""
    accelerators: Collection[AcceleratorSpec] = ()
    """Devices. The file replaces those that it lists."""
    held: Collection[MemoryClaim] = ()
    """Memory claims of replicas on devices. Those of fleets in the file are skipped."""
    links: Mapping[str, FleetLinks] = {}
    """Fleet → its protocol and fallbacks. Fleets in the file are skipped."""
    refused: Mapping[str, str] = {}
    """Top-level field that is not allowed there → why. Empty lists pass."""
    refused_of_fleets: Mapping[str, str] = {}
    """The same of fields of fleets."""

    def taken_names(self, in_file: Collection[str]) -> dict[str, str]:
        """Name, alias or adapter → its owner: ``an alias of fleet x``."""
        taken: dict[str, str] = {}
        for fleet, aliases in self.aliases.items():
            if fleet not in in_file:
                taken[fleet] = f"the name of fleet {fleet}"
                taken |= dict.fromkeys(aliases, f"an alias of fleet {fleet}")
        for fleet, adapters in self.adapters.items():
            if fleet not in in_file:
                taken |= dict.fromkeys(adapters, f"an adapter of fleet {fleet}")
        return taken

    def taken_matches(self, in_file: Collection[str]) -> dict[Match, str]:
        """Match → the fleet that it routes to."""
        return {match: fleet for match, fleet in self.matches.items() if fleet not in in_file}

    def staying(self, in_file: Collection[str]) -> list[MemoryClaim]:
        """Memory claims of replicas whose fleets are not in the file."""
        return [one for one in self.held if one.fleet not in in_file]


def cross_check_problems(content: Any, strategies: StrategyRules | None, existing: ExistingState) -> Problems:
    """Every problem between parts, and between them and what is ``existing``."""
    file: RawEntry = ("", content if isinstance(content, Mapping) else {})
    classes = list(entries_of(file, "hardware"))
    fleets = list(entries_of(file, "fleets"))
    known = {*existing.hardware, *(texts_of(classes, "name"))}
    problems = _refused(file, existing.refused)
    _unique_names(classes, problems)
    keys = list(entries_of(file, "client_keys"))
    _unique_names(fleets, problems)
    _unique_names(keys, problems)
    _known_fleets(keys, set(texts_of(fleets, "name")), problems)
    in_file = set(texts_of(fleets, "name"))
    taken = existing.taken_names(in_file)
    _free_names(fleets, taken, problems)
    _unique_other_names(fleets, taken, problems)
    _unique_matches(fleets, existing.taken_matches(in_file), problems)
    _fallbacks(fleets, existing.links, problems)
    _one_default(fleets, problems)
    devices = list(entries_of(file, "accelerators"))
    _unique_names(devices, problems)
    problems += device_problems(devices, fleets, existing.accelerators, existing.staying(in_file))
    for fleet in fleets:
        replicas = list(entries_of(fleet, "replicas"))
        _unique_names(replicas, problems)
        _known_hardware(replicas, known, problems)
        problems += _refused(fleet, existing.refused_of_fleets)
        sources = list(entries_of(fleet, "sources"))
        _unique_names(sources, problems)
        _known_hardware([one for source in sources for one in _templates(source)], known, problems)
        for pointer, fields in replicas:
            problems += (
                [] if enough(problems) else adapter_problems(fields, fleet[1].get("adapters"), pointer)
            )
        problems += [] if enough(problems) else _strategy(fleet, strategies)
    return problems


def _refused(of: RawEntry, refused: Mapping[str, str]) -> Problems:
    pointer, fields = of
    return [
        FieldProblem(f"{pointer}/{key}", why, at_key=True)
        for key, why in refused.items()
        if fields.get(key) not in (None, [])
    ]


def _templates(source: RawEntry) -> list[RawEntry]:
    """Of a source: the settings of all that it lists."""
    pointer, fields = source
    replica = fields.get("replica")
    return [(f"{pointer}/replica", replica)] if isinstance(replica, Mapping) else []


def _unique_names(parts: list[RawEntry], problems: Problems) -> None:
    first: dict[str, str] = {}
    for pointer, fields in parts:
        name = fields.get("name")
        if not isinstance(name, str):
            continue
        taken_by = first.setdefault(name, pointer)
        if taken_by != pointer:
            message = (
                f'the name "{shortened(name)}" is already taken by {_short_path(taken_by)}: choose another'
            )
            problems.append(FieldProblem(f"{pointer}/name", message))


def _free_names(fleets: list[RawEntry], existing: Mapping[str, str], problems: Problems) -> None:
    for pointer, fields in fleets:
        name = fields.get("name")
        if isinstance(name, str) and name in existing:
            message = f'the name "{shortened(name)}" is already {existing[name]}: choose another'
            problems.append(FieldProblem(f"{pointer}/name", message))


def _unique_other_names(fleets: list[RawEntry], existing: Mapping[str, str], problems: Problems) -> None:
    taken = {**existing, **{name: f"the name of fleet {name}" for name in texts_of(fleets, "name")}}
    for pointer, fields in fleets:
        for key, word in OTHER_NAMES.items():
            names = fields.get(key)
            for index, name in enumerate(names if isinstance(names, list) else []):
                if not isinstance(name, str):
                    continue
                if name in taken:
                    message = f'the {word} "{shortened(name)}" is already {taken[name]}: choose another'
                    problems.append(FieldProblem(f"{pointer}/{key}/{index}", message))
                else:
                    taken[name] = f"an {word} of fleet {shortened(str(fields.get('name')))}"


def _unique_matches(fleets: list[RawEntry], existing: Mapping[Match, str], problems: Problems) -> None:
    first: dict[Match, str] = {**existing}
    for fleet in fleets:
        name = str(fleet[1].get("name"))
        above: set[Match] = set()
        for pointer, fields in entries_of(fleet, "match"):
            match = _readable_match(fields)
            if match is None:
                continue
            taken_by = first.setdefault(match, name)
            if taken_by != name or match in above:
                problems.append(FieldProblem(pointer, taken_match(match, taken_by, shortened(name))))
            above.add(match)


def _readable_match(fields: Mapping[str, Any]) -> Match | None:
    try:
        match = normalised(msgspec.convert(fields, Match))
        return match if match != Match() else None
    except ValueError:  # msgspec's own among them; reported elsewhere
        return None


def taken_match(match: Match, taken_by: str, fleet: str, in_words: str = "") -> str:
    """Why ``fleet`` cannot have a match that ``taken_by`` has. ``in_words``: what to call that; not set, by
    its name."""
    if taken_by == fleet:
        return f"{describe_match(match)} is listed twice: remove one"
    owner = in_words or f"fleet {taken_by}"
    return f"{describe_match(match)} leads to {owner} already: fleet {fleet} needs another host or path"


def _one_default(fleets: list[RawEntry], problems: Problems) -> None:
    defaults = [part for part in fleets if part[1].get("default") is True]
    for pointer, _ in defaults[1:]:
        message = f"fleet {defaults[0][1].get('name')} is already the default: only one fleet can be"
        problems.append(FieldProblem(f"{pointer}/default", message))


def _known_hardware(replicas: list[RawEntry], known: Collection[str], problems: Problems) -> None:
    for pointer, fields in replicas:
        name = fields.get("hardware")
        if isinstance(name, str) and name not in known and not enough(problems):
            there = f"; known: {listed(known)}" if known else ""
            hint = did_you_mean(name, known) or f"{there}; add it to the hardware list"
            message = f'unknown hardware class "{shortened(name)}"{hint}'
            problems.append(FieldProblem(f"{pointer}/hardware", message))


def adapter_problems(replica: Mapping[str, Any], of_fleet: object, at: str = "") -> Problems:
    """Adapters of a replica, which are to be among its fleet's, each once. ``of_fleet``: those that it lists,
    as far as they are valid. ``at``: JSON pointer to the replica."""
    known = {name for name in of_fleet if isinstance(name, str)} if isinstance(of_fleet, list) else set()
    problems: Problems = []
    seen: set[str] = set()
    names = replica.get("adapters")
    for index, name in enumerate(names if isinstance(names, list) else []):
        if not isinstance(name, str) or alias_problem(name) or enough(problems):
            continue
        pointer, shown = f"{at}/adapters/{index}", shortened(name)
        if name in seen:
            problems.append(FieldProblem(pointer, f'the adapter "{shown}" is listed twice: remove one'))
        elif name not in known:
            there = f"; it has: {listed(known)}" if known else ""
            hint = did_you_mean(name, known) or f"{there}; add it to the fleet's adapters first"
            problems.append(FieldProblem(pointer, f'the fleet has no adapter "{shown}"{hint}'))
        seen.add(name)
    return problems


def _known_fleets(keys: list[RawEntry], known: Collection[str], problems: Problems) -> None:
    for pointer, fields in keys:
        names = fields.get("fleets")
        for index, name in enumerate(names if isinstance(names, list) else []):
            if isinstance(name, str) and name not in known and not enough(problems):
                hint = did_you_mean(name, known) or "; it must be the name of a fleet in this file"
                message = f'unknown fleet "{shortened(name)}"{hint}'
                problems.append(FieldProblem(f"{pointer}/fleets/{index}", message))


def _fallbacks(fleets: list[RawEntry], existing: Mapping[str, FleetLinks], problems: Problems) -> None:
    """Also of the existing ones, to which a fleet of the file may be a fallback."""
    policies = [(pointer, fields, fields.get("policy")) for pointer, fields in fleets]
    lists = [
        (f"{pointer}/policy/fallback", fields, policy.get("fallback"))
        for pointer, fields, policy in policies
        if isinstance(policy, Mapping)
    ]
    all_links = dict(existing)
    for _, fields in fleets:
        all_links[str(fields.get("name"))] = FleetLinks(str(fields.get("protocol")), ())
    for _, fields, listed_there in lists:
        name = str(fields.get("name"))
        all_links[name] = all_links[name]._replace(fallbacks=tuple(names_of(listed_there)))
    for pointer, fields, listed_there in lists:
        if not enough(problems):
            problems += fallback_problems(str(fields.get("name")), listed_there, all_links, pointer)
    changed = {str(fields.get("name")): pointer for pointer, fields in fleets}
    for name, links in existing.items():
        if name in changed:
            continue
        for of in links.fallbacks:
            if of in changed and all_links[of].protocol != links.protocol:
                message = (
                    f"fleet {of} is a fallback of fleet {name}, whose protocol is {links.protocol}: keep "
                    f"that, or remove it from the fallback list of {name} first"
                )
                problems.append(FieldProblem(f"{changed[of]}/protocol", message))


def _strategy(fleet: RawEntry, strategies: StrategyRules | None) -> Problems:
    pointer, fields = fleet
    policy = fields.get("policy")
    if not isinstance(policy, Mapping):
        return []
    reported_elsewhere: Problems = []
    valid = POLICY.read_fields(policy, "", reported_elsewhere)
    return strategy_problems(valid, f"{pointer}/policy", strategies)


def _short_path(pointer: str) -> str:
    """The last list and index of a pointer: ``replicas[0]``."""
    _, key, index = pointer.rsplit("/", 2)
    return f"{key}[{index}]"
