"""Settings of a source that is a name in DNS."""

import ipaddress
import re
from collections.abc import Mapping
from typing import Any

from routing.contract.addresses import DEFAULT_PORTS, normalise_url
from routing.contract.field_rules import Choice, FieldProblem, ListOf, Problems, Section, Text, count

DNS_PORT = 53
_LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?\Z")


def _name(text: str) -> str:
    name = text.strip().rstrip(".").lower()
    labels = name.split(".")
    if len(labels) < 2 or len(name) > 253 or not all(map(_LABEL.match, labels)):
        raise ValueError(
            f'"{text[:80]}" must be a whole name in DNS, with its domain, as "llm.models.example": search '
            "domains are not tried"
        )
    if labels[-1].isdecimal():
        raise ValueError(f'"{text[:80]}" is an address: a replica at an address is registered as it is')
    return name


def path_prefix(text: str) -> str:
    """Raises ValueError."""
    if text in ("", "/"):
        return ""
    if not text.startswith("/"):
        raise ValueError('must begin with a /, as "/v1"')
    normalise_url(f"http://models.example{text}")
    return text.rstrip("/")


def split_server(text: str) -> tuple[str, int]:
    """``10.0.0.2``, ``10.0.0.2:53``, ``2001:db8::1`` or ``[2001:db8::1]:53``. Raises ValueError."""
    host, port = text, str(DNS_PORT)
    if text.startswith("["):
        host, closed, rest = text[1:].partition("]")
        if not closed:
            raise ValueError("no closing bracket")
        port = rest.removeprefix(":") or port
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    if not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError("no port")
    return str(ipaddress.ip_address(host)), int(port)


def _server(text: str) -> str:
    try:
        split_server(text)
    except ValueError:
        words = f'"{text[:80]}" must be an address, with or without a port, as "10.0.0.2" or "10.0.0.2:53"'
        raise ValueError(words) from None
    return text


def _ports_of_targets(fields: Mapping[str, Any], at: str, problems: Problems) -> None:
    if fields.get("type") == "srv" and fields.get("port") is not None:
        problems.append(FieldProblem(f"{at}/port", "SRV records say the ports of their targets: remove it"))


DNS = Section(
    words="A name in DNS: replicas at its addresses, or at the targets of its SRV records.",
    what="a source of DNS",
    fields={
        "name": Text(
            words="Whole name, with its domain.",
            what="name in DNS",
            check=_name,
            required='"llm.models.example"',
        ),
        "type": Choice(
            words="Which records: `a` (not set), which is A and AAAA, or `srv`.", options=("a", "srv")
        ),
        "port": count(
            "Port of every replica, where records are addresses. Not set: that of the scheme.",
            65535,
            nullable=True,
        ),
        "scheme": Choice(words="Scheme of every replica. Not set: http.", options=("http", "https")),
        "path_prefix": Text(words="Path prefix of every replica.", what="path", check=path_prefix),
        "nameservers": ListOf(
            words="Servers that are asked, by address, one after the other. Not set: those of the host.",
            item=Text(words="Address, with or without a port.", check=_server),
            plural="addresses",
            at_most=8,
            distinct=True,
        ),
    },
    cross_check=_ports_of_targets,
)


def port_of(settings: Mapping[str, Any]) -> int:
    """Of the checked group with its defaults."""
    return int(settings["port"] or DEFAULT_PORTS[settings["scheme"]])
