"""Route matching by host and path: what a match may say, and which fleet a request matches.

The most exact host wins, then the longest path: a name before ``*.suffix``, a longer suffix before a
shorter one, any host last. Pure.
"""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from routing.contract.addresses import path_prefix
from routing.contract.table import Match

MAX_HOST_LENGTH = 253

_NAME = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9])?)*\Z")
_NAMED_BY_PATH = "/fleets"


def normalise_host(text: str) -> str:
    """A host as it is kept: in lower case, without a dot at the end; empty: any host.

    Raises ValueError that says what to write instead.
    """
    host = text.lower().removesuffix(".")
    name = host.removeprefix("*.")
    if not text:
        return ""
    if "://" in host or "/" in host:
        raise ValueError(f'"{text[:80]}" is not a host: write the name alone, as in llm.corp.example')
    if ":" in host:
        raise ValueError(f'"{text[:80]}" has a port: requests are matched by name alone, so leave it out')
    if "*" in name:
        raise ValueError(f'"{text[:80]}": a * stands only at the beginning, as in *.corp.example')
    if len(host) > MAX_HOST_LENGTH or not _NAME.match(name):
        raise ValueError(f'"{text[:80]}" is not a host name: use letters, digits, hyphens and dots')
    return host


def normalise_path(text: str) -> str:
    """A path as it is kept: without a slash at the end; empty: any path. Raises as :func:`normalise_host`."""
    if not text:
        return ""
    if not text.startswith("/"):
        raise ValueError(f'"{text[:80]}" does not begin with a slash: write /{text[:79]}')
    for mark, name in (("?", "query"), ("#", "fragment")):
        if mark in text:
            raise ValueError(f'a path has no {name}: remove everything from "{mark}" on')
    path = path_prefix(text[1:])
    if path == _NAMED_BY_PATH or path.startswith(f"{_NAMED_BY_PATH}/"):
        raise ValueError("a path below /fleets/ names its fleet already: choose another")
    return path


def normalised(match: Match) -> Match:
    """Raises ValueError as its fields do."""
    return Match(host=normalise_host(match.host), path_prefix=normalise_path(match.path_prefix))


def describe_match(match: Match) -> str:
    """``host llm.corp.example, path /v1``."""
    host = f"host {match.host}" if match.host else ""
    path = f"path {match.path_prefix}" if match.path_prefix else ""
    return ", ".join(part for part in (host, path) if part)


class _Path(NamedTuple):
    prefix: bytes
    fleet: str


class _Hosts(NamedTuple):
    """Matches of one host, or of all names with one suffix; the longest path first."""

    suffix: bytes
    paths: tuple[_Path, ...]


class MatchIndex:
    """All matches of one table, ready to be asked. Not changed once it is made."""

    __slots__ = ("_names", "_suffixes")

    def __init__(self, matches: Mapping[str, Iterable[Match]]) -> None:
        """``matches``: fleet's name → its matches, normalised."""
        by_host: dict[str, list[_Path]] = {}
        for fleet, listed in matches.items():
            for match in listed:
                by_host.setdefault(match.host, []).append(_Path(match.path_prefix.encode(), fleet))
        for paths in by_host.values():
            paths.sort(key=lambda path: (-len(path.prefix), path))
        self._names = {
            host.encode(): tuple(paths) for host, paths in by_host.items() if host and host[0] != "*"
        }
        suffixes = [
            _Hosts(host.removeprefix("*").encode(), tuple(paths))
            for host, paths in by_host.items()
            if not host or host[0] == "*"
        ]
        # The suffix that any host ends with is the shortest: none at all.
        self._suffixes = sorted(suffixes, key=lambda hosts: -len(hosts.suffix))

    def find(self, host: bytes, target: bytes) -> str | None:
        """The fleet of a request with this Host (port and all) and this target; ``None``: of none.

        A path is compared as it was written, up to a whole segment: ``/v1`` matches ``/v1/x``, not ``/v10``.
        """
        name = host.lower().partition(b":")[0].removesuffix(b".") if host[:1] != b"[" else b""
        path = target.partition(b"?")[0]
        found = _longest(self._names.get(name, ()), path)
        for hosts in self._suffixes:
            if found is not None:
                break
            # More than the suffix: *.corp.example is not corp.example.
            if not hosts.suffix or (name.endswith(hosts.suffix) and len(name) > len(hosts.suffix)):
                found = _longest(hosts.paths, path)
        return found


def _longest(paths: tuple[_Path, ...], target: bytes) -> str | None:
    for prefix, fleet in paths:
        if target.startswith(prefix) and target[len(prefix) : len(prefix) + 1] in (b"", b"/"):
            return fleet
    return None
