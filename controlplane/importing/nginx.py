"""Import of an nginx configuration: each upstream and each address of a ``proxy_pass`` becomes a fleet.

``upstream`` blocks become fleets (:mod:`.nginx_upstream`). ``server`` and ``location`` blocks say which host
and path lead to which of them, and with what time limits; inside them, settings of the outer block hold
until an inner one says otherwise. Everything else is noted as not carried over, with its line.
"""

import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from controlplane.importing import nginx_file, nginx_upstream
from controlplane.importing.model import Draft, FleetDraft, SourceLocation, UniqueNames
from controlplane.importing.nginx_file import Directive
from controlplane.importing.nginx_routes import Route, complete_fleets
from controlplane.importing.nginx_unsupported import NO_HTTP, is_boilerplate, reason, without_secrets
from routing.contract.addresses import DEFAULT_PORTS

_INHERITED = (
    *("proxy_connect_timeout", "proxy_read_timeout", "proxy_next_upstream"),
    *("proxy_ssl_trusted_certificate", "proxy_ssl_name", "proxy_ssl_verify"),
)
_Settings = Mapping[str, Directive]
_PATH_AS_IT_CAME = re.compile(r"(?<=[^/$])(\$request_uri|\$uri\$is_args\$args)\Z")


class _Scope(NamedTuple):
    """What holds in one block."""

    settings: _Settings
    hosts: tuple[str, ...]
    prefix: str | None
    """Of the location; None if its way of matching requests cannot be carried over."""


def read(path: Path, protocol: str = "") -> Draft:
    """What an nginx configuration says about replicas. ``protocol``: of all fleets; empty: by their paths.

    Raises NotImportable.
    """
    draft = Draft(str(path), "nginx")
    tree = nginx_file.read(path, draft)
    return _NginxImporter(draft, protocol).all(tree)


class _NginxImporter:
    """One walk over one configuration."""

    def __init__(self, draft: Draft, protocol: str) -> None:
        self._draft = draft
        self._protocol = protocol
        self._upstreams: dict[str, Directive] = {}
        self._fleets: dict[tuple[str, str, str], FleetDraft] = {}
        """By scheme, upstream and the path that is put before every request's path."""
        self._routes: dict[tuple[str, str, str], list[Route]] = {}
        self._not_http: dict[str, Directive] = {}
        """By upstream: the directive that shows that its servers do not speak HTTP."""
        self._names = UniqueNames()
        self._boilerplate: list[Directive] = []

    def all(self, tree: Sequence[Directive]) -> Draft:
        for one in _http(tree):
            if one.name == "upstream" and one.args and one.block is not None:
                self._upstreams[one.args[0]] = one
        inherited = {one.name: one for one in _http(tree) if one.name in _INHERITED}
        for one in tree:
            if one.name not in ("http", "server", "upstream", *_INHERITED):
                self._lose(one)
        outside = set(map(id, tree))
        for one in _http(tree):
            if one.name == "server" and one.block is not None:
                self._server(one, inherited)
            elif one.name not in ("upstream", *_INHERITED) and id(one) not in outside:
                self._lose(one)
        routed = {upstream for _, upstream, _ in self._routes}
        for name, block in self._upstreams.items():
            if name in routed:
                continue
            if other := self._not_http.get(name):
                why = f"{other} ({other.place}) says that its servers do not speak HTTP"
                self._draft.note_dropped(block.place, f"upstream {name}", why)
            else:
                self._route(Route("http", name, "", (), None, {}, block.place))
        self._tell_boilerplate()
        complete_fleets(self._fleets, self._routes, self._protocol, self._draft)
        self._draft.fleets = list(self._fleets.values())
        return self._draft

    def _server(self, server: Directive, inherited: _Settings) -> None:
        block = server.block or ()
        hosts = (name for one in block if one.name == "server_name" for name in self._hosts(one))
        self._block(block, _Scope({**inherited, **_settings(block)}, tuple(dict.fromkeys(hosts)), ""))

    def _hosts(self, directive: Directive) -> Iterable[str]:
        for name in directive.args:
            if name in ("_", "", "localhost"):
                continue
            if name.startswith("~") or "*" in name.removeprefix("*."):
                why = "of patterns, only *.example.com is supported"
                self._draft.note_dropped(directive.place, f"server_name {name}", why)
            elif name.startswith("."):
                yield from (name[1:], f"*{name}")
            else:
                yield name

    def _block(self, block: Sequence[Directive], scope: _Scope) -> None:
        for one in block:
            if one.name == "location" and one.block is not None:
                settings = {**scope.settings, **_settings(one.block)}
                self._block(one.block, _Scope(settings, scope.hosts, self._prefix(one)))
            elif one.name == "proxy_pass":
                self._proxy_pass(one, scope)
            elif one.name == "health_check":
                self._draft.note_dropped(
                    one.place,
                    str(one),
                    "replicas are always probed; set the fleet's probe (docs/fleet-file.md)",
                )
            elif one.name not in ("server_name", *_INHERITED):
                if one.name in NO_HTTP and one.args:
                    self._not_http.setdefault(_target(one.args[0]), one)
                self._lose(one)

    def _prefix(self, location: Directive) -> str | None:
        modifier, path = ("", location.args[0]) if len(location.args) == 1 else tuple(location.args[:2])
        if modifier in ("", "^~") and path.startswith("/"):
            return path
        self._draft.note_dropped(location.place, str(location), "requests are matched by path prefix only")
        return None

    def _proxy_pass(self, one: Directive, scope: _Scope) -> None:
        written, separator, rest = _PATH_AS_IT_CAME.sub("", one.args[0]).partition("://")
        scheme = written.lower()
        target, slash, path = rest.partition("/")
        if "$" in scheme + target or not separator:
            self._draft.note_dropped(one.place, str(one), "the address depends on the request")
        elif scheme not in ("http", "https"):
            self._not_http.setdefault(target, one)
            self._draft.note_dropped(
                one.place, str(one), f"{written} is not supported: replicas are reached over HTTP or HTTPS"
            )
        elif "$" in path:
            why = "the path contains variables; here it is forwarded unchanged"
            self._draft.note_dropped(one.place, str(one), why)
        else:
            base, prefix = self._paths(slash + path, scope.prefix, one)
            if target not in self._upstreams:
                self._upstreams[target] = nginx_upstream.direct(target, one.place)
                if _may_be_upstream(target):
                    why = f"no upstream {target} was found: taken as the host {target}"
                    self._draft.note_changed(one.place, str(one), f"{why}, port {DEFAULT_PORTS[scheme]}")
            self._route(Route(scheme, target, base, scope.hosts, prefix, scope.settings, one.place))

    def _paths(self, path: str, prefix: str | None, one: Directive) -> tuple[str, str | None]:
        """The path before every request's path, and the location's prefix if it can select a fleet.

        nginx replaces the location's prefix by the path in ``proxy_pass``.
        """
        if not path or prefix is None or path == prefix:
            return "", prefix
        if path.endswith(prefix or "/"):
            return path.removesuffix(prefix or "/"), prefix
        self._draft.note_dropped(
            one.place,
            str(one),
            f"nginx replaces {prefix} by {path}; here a path is forwarded unchanged, without a leading "
            "/fleets/NAME",
        )
        return path.rstrip("/"), None

    def _route(self, route: Route) -> None:
        key = (route.scheme, route.upstream, route.base)
        if key not in self._fleets:
            block = self._upstreams[route.upstream]
            heading = f"{block.name} {route.upstream}, {block.place}"
            name = self._names.take(route.upstream + route.base, f"fleet-{len(self._fleets) + 1}")
            fleet = FleetDraft(name, heading)
            nginx_upstream.fill(fleet, block, route.scheme, route.base, self._draft)
            self._fleets[key] = fleet
        self._routes.setdefault(key, []).append(route)

    def _lose(self, one: Directive) -> None:
        if is_boilerplate(one.name) and not one.block:
            self._boilerplate.append(one)
        else:
            self._draft.note_dropped(one.place, without_secrets(one.name, one.args), reason(one.name))

    def _tell_boilerplate(self) -> None:
        """One line a file and reason, with all line numbers, for what says nothing about replicas."""
        groups: dict[tuple[str, str], list[Directive]] = {}
        for one in self._boilerplate:
            groups.setdefault((one.place.file, reason(one.name)), []).append(one)
        for (file, why), found in groups.items():
            lines = sorted({one.place.line for one in found})
            names = ", ".join(dict.fromkeys(one.name for one in found))
            also = ", ".join(map(str, lines[1:]))
            self._draft.note_dropped(
                SourceLocation(file, lines[0]), names, why + (f" (also line {also})" if also else "")
            )


def _http(tree: Sequence[Directive]) -> list[Directive]:
    """What stands in ``http`` blocks, or on the top level of a file that is included in one."""
    inside = [one for block in tree if block.name == "http" for one in block.block or ()]
    return inside + [one for one in tree if one.name in ("server", "upstream", *_INHERITED)]


def _target(address: str) -> str:
    return address.rpartition("://")[2].partition("/")[0]


def _may_be_upstream(target: str) -> bool:
    """Whether it could be the name of an upstream in another file, and not only a host."""
    try:
        ipaddress.ip_address(target)
    except ValueError:
        return not set(":@?") & set(target) and target != "localhost"
    return False


def _settings(block: Iterable[Directive]) -> dict[str, Directive]:
    return {one.name: one for one in block if one.name in _INHERITED}
