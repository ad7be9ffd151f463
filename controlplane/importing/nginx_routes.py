"""Routes to a fleet in nginx: its protocol, timeouts, retries, host and path."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from controlplane.importing.model import Draft, FleetDraft, NotImportable, SourcedValue, SourceLocation
from controlplane.importing.nginx_file import Directive
from controlplane.importing.nginx_tls import verification
from controlplane.importing.nginx_upstream import seconds
from routing.contract.matches import normalised
from routing.contract.policy import Timeouts
from routing.contract.policy_rules import TIMEOUTS
from routing.contract.table import Match

_MOST_MATCHES = 20_000
"""Each host of a server with each of its locations: a short file can say very many."""
_Key = tuple[str, str, str]


class Route(NamedTuple):
    """One ``proxy_pass``."""

    scheme: str
    upstream: str
    base: str
    hosts: tuple[str, ...]
    prefix: str | None
    settings: Mapping[str, Directive]
    place: SourceLocation


def complete_fleets(
    fleets: Mapping[_Key, FleetDraft], routes: Mapping[_Key, Sequence[Route]], protocol: str, draft: Draft
) -> None:
    """Complete each fleet from the routes that lead to it. Raises NotImportable where there are too many."""
    if sum(len(route.hosts) or 1 for found in routes.values() for route in found) > _MOST_MATCHES:
        words = f"has more than {_MOST_MATCHES} pairs of a host and a path: import the servers one by one"
        raise NotImportable(f"{draft.source}: {words}")
    usable = [key for key, fleet in fleets.items() if fleet.replicas]
    everything = [key for key in usable if any(_is_everything(route) for route in routes[key])]
    default = next(iter(everything or (usable if len(usable) == 1 else [])), None)
    taken: dict[Match, FleetDraft] = {}
    for key, fleet in fleets.items():
        fleet.fields = {"protocol": _protocol(routes[key], protocol, draft), **fleet.fields}
        if key == default:
            why = "location /, no server_name" if key in everything else "the only one"
            fleet.fields["default"] = SourcedValue(True, f"{why}: takes requests that name no fleet")
        if key in usable:
            matches = list(_matches(fleet, routes[key], taken, draft))
            if matches:
                fleet.fields["match"] = matches
        if key[0] == "https":
            verification(
                fleet, [(route.upstream, route.settings, route.place) for route in routes[key]], draft
            )
        _timeouts(fleet, routes[key], draft)
        _retries(fleet, routes[key], draft)


def _is_everything(route: Route) -> bool:
    return not route.hosts and route.prefix == "/"


_BY_MODEL = "requests under /v2/models/NAME find their fleet by NAME: add the models' names to its aliases"


def _protocol(routes: Sequence[Route], chosen: str, draft: Draft) -> SourcedValue:
    if chosen:
        return SourcedValue(chosen, "set by --protocol")
    for beginning, protocol in (("/v1", "openai"), ("/v2", "open-inference")):
        for route in routes:
            if route.prefix and (route.prefix + "/").startswith(beginning + "/"):
                if protocol == "open-inference":
                    draft.note_changed(route.place, f"location {route.prefix}", _BY_MODEL)
                return SourcedValue(protocol, f"a guess from location {route.prefix}, {route.place}")
    return SourcedValue(
        "generic", "nginx does not say which API clients use: openai, open-inference or another"
    )


def _matches(
    fleet: FleetDraft, routes: Sequence[Route], taken: dict[Match, FleetDraft], draft: Draft
) -> Iterator[SourcedValue]:
    """``match`` for every host and path that leads to the fleet. ``taken``: those given already."""
    for route in routes:
        for host in route.hosts or ("",):
            if route.prefix is None or (not host and route.prefix == "/"):
                continue
            source = f"{host} location {route.prefix}".strip()
            try:
                match = normalised(Match(host=host, path_prefix=route.prefix.rstrip("/")))
            except ValueError as error:
                draft.note_dropped(route.place, source, str(error))
                continue
            if match in taken:
                if taken[match] is not fleet:
                    draft.note_dropped(
                        route.place, source, f"fleet {taken[match].name} already has this host and path"
                    )
            else:
                taken[match] = fleet
                fields = {name: value for name, value in msgspec.to_builtins(match).items() if value}
                yield SourcedValue(fields, f"{source}, {route.place}")


def _timeouts(fleet: FleetDraft, routes: Sequence[Route], draft: Draft) -> None:
    connect = _longest("proxy_connect_timeout", routes, draft)
    read = _longest("proxy_read_timeout", routes, draft)
    if connect is not None:
        _limit(fleet, "connect_s", connect, draft)
    if read is not None:
        value = seconds(read.args[0]) or 0.0
        _limit(fleet, "first_byte_s", read, draft)
        _limit(fleet, "idle_s", read, draft)
        if value > Timeouts().total_s:
            # An answer that is not streamed may be silent for as long.
            _limit(fleet, "total_s", read, draft)
            draft.note_changed(
                read.place, str(read), "the whole request is limited as well: timeouts.total_s"
            )


def _longest(name: str, routes: Sequence[Route], draft: Draft) -> Directive | None:
    directives = [route.settings[name] for route in routes if name in route.settings]
    known = [one for one in directives if seconds(one.args[0]) is not None]
    for one in directives:
        if seconds(one.args[0]) is None:
            draft.note_dropped(one.place, str(one), "it is not a time")
    if not known:
        return None
    longest = max(known, key=lambda one: seconds(one.args[0]) or 0.0)
    for one in known:
        if seconds(one.args[0]) != seconds(longest.args[0]):
            draft.note_changed(
                one.place, str(one), f"a fleet has one value: the longest is used, of {longest.place}"
            )
    return longest


def _limit(fleet: FleetDraft, field: str, directive: Directive, draft: Draft) -> None:
    rule: Any = TIMEOUTS.fields[field]
    value = seconds(directive.args[0]) or 0.0
    kept = min(max(value, rule.minimum), rule.maximum)
    fleet.timeouts()[field] = SourcedValue(kept, f"{directive.name} {directive.args[0]}, {directive.place}")
    if kept != value:
        draft.note_changed(
            directive.place, str(directive), f"{field} is from {rule.minimum:g} to {rule.maximum:g} s"
        )


def _retries(fleet: FleetDraft, routes: Sequence[Route], draft: Draft) -> None:
    directives = {
        route.settings["proxy_next_upstream"] for route in routes if "proxy_next_upstream" in route.settings
    }
    for one in sorted(directives, key=lambda one: one.place):
        if one.args == ("off",) and len(directives) == 1:
            fleet.policy()["retries"] = {"budget_percent": SourcedValue(0, f"{one}, {one.place}")}
        else:
            why = "a request is retried if its connection failed before the first byte (policy.retries)"
            draft.note_changed(one.place, str(one), why)
