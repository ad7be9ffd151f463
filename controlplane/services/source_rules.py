"""Discovery source rules: what may be set of a source, by its kind, and the defaults."""

import ipaddress
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any

from routing.contract.addresses import parse_base_url
from routing.contract.field_rules import FieldProblem, ListOf, Problems, Section, Text, found, seconds
from routing.contract.fleet_file.rules import REPLICA
from routing.contract.names import checked_slug

PEOPLES_FIELDS = frozenset({"name", "weight", "admin_state", "move"})
"""What a source says of a new replica only: afterwards they are what people make of them."""
RESYNC_S = 2.0
_NOT_OF_ALL = frozenset({"name", "url", "admin_state", "move"})
"""Of a replica: what cannot be the same for all that a source lists."""
FILE_TYPES = (".yaml", ".yml", ".json")


def _file(text: str) -> str:
    path = PurePosixPath(text)
    if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in text:
        raise ValueError(
            "must be the path of a file below the folder of SWITCHYARD_SOURCES_DIR, without .. and without "
            'a / before it, as "llm.yaml"'
        )
    if path.suffix not in FILE_TYPES:
        raise ValueError(f"must end in {', '.join(FILE_TYPES)}: that is how the file is read")
    return str(path)


FILE = Section(
    words="A watched file with a list of replicas, as in a fleet file.",
    what="a file source",
    fields={
        "path": Text(
            words="Path below the folder `SWITCHYARD_SOURCES_DIR` of the hosts of conductors.",
            what="path",
            check=_file,
            required='"llm.yaml"',
        )
    },
)

TTL_S = 30.0
LEASE_FIELDS = (
    *("url", "hardware", "site", "version", "weight", "max_concurrency", "adapters", "memory_bytes"),
    *("request_bytes", "request_bytes_per_work"),
)
"""What a replica may say of itself. Secrets are none of it: a source's ``replica`` names them for all."""


def _host(text: str) -> str:
    try:
        return str(ipaddress.ip_network(text.strip()))
    except ValueError:
        host = text.strip().lower().rstrip(".")
    if "/" in host:
        raise ValueError(f'"{host[:80]}" is no network: write it as 10.0.0.0/8, no bits beyond the prefix')
    name = host.removeprefix("*.")
    try:
        parse_base_url(f"http://{name}")
    except ValueError as error:
        raise ValueError(f"must be a network, an address, a host name or *. and a suffix: {error}") from None
    return host


LEASE = Section(
    words="Replicas that register themselves, and stay as long as they renew their lease.",
    what="a source of leases",
    fields={
        "allow": ListOf(
            words="Where these replicas may be: networks (`10.0.0.0/8`), addresses, host names, or `*.` and "
            "a suffix.",
            item=Text(words="A network, an address, a host name or a suffix.", check=_host),
            plural="networks and host names",
            at_least=1,
            required="[10.0.0.0/8]",
        ),
        "ttl_s": seconds(f"How long a lease holds unless it is renewed. Not set: {TTL_S:g}.", 5, 3600),
    },
)
LEASE_REQUEST = Section(
    words="What a replica says of itself when it registers or renews.",
    what="a lease",
    fields={name: REPLICA.fields[name] for name in LEASE_FIELDS},
)


def is_allowed(host: str, allow: Iterable[str]) -> bool:
    """``host``: of a base URL. A name is not looked up: it has to be named itself."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return any(host == one or (one[:2] == "*." and host.endswith(one[1:])) for one in allow)
    return any(_holds(one, address) for one in allow)


def _holds(network: str, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    try:
        return address in ipaddress.ip_network(network)
    except ValueError:
        return False


KINDS: Mapping[str, Section] = {"file": FILE, "lease": LEASE}


def kind_of(settings: Mapping[str, Any]) -> str:
    """Of checked settings."""
    return next(name for name in KINDS if name in settings)


def _one_kind(fields: Mapping[str, Any], at: str, problems: Problems) -> None:
    given = [name for name in KINDS if name in fields]
    kinds = ", ".join(KINDS)
    if not given:
        problems.append(FieldProblem(at, f"needs one of {kinds}: where the replicas are listed"))
    elif len(given) > 1:
        words = f"is beside {given[0]}: a source is of one kind; make another source for it"
        problems.append(FieldProblem(f"{at}/{given[1]}", words))
    resync_s = fields.get("resync_s")
    if "lease" in given and isinstance(resync_s, int | float) and resync_s > RESYNC_S:
        words = f"must be at most {RESYNC_S:g} for leases: what runs out is to be seen; remove it"
        problems.append(FieldProblem(f"{at}/resync_s", words))


SOURCE = Section(
    words="What lists replicas of a fleet.",
    what="a source",
    fields={
        "name": Text(
            words="Name of the source, unique in its fleet. Cannot change later.",
            what="name",
            check=checked_slug,
            required="pods",
        ),
        **KINDS,
        "replica": Section(
            words="Settings of every replica that it lists, unless the list says otherwise.",
            what="settings of replicas",
            fields={name: rule for name, rule in REPLICA.fields.items() if name not in _NOT_OF_ALL},
        ),
        "resync_s": seconds(f"Time between two lists. Not set: {RESYNC_S:g}.", 1, 300),
    },
    cross_check=_one_kind,
)


def check_source(settings: Mapping[str, Any]) -> tuple[dict[str, Any], list[FieldProblem]]:
    """A whole source, its name included. ``null`` stands for what is not set."""
    problems: Problems = []
    given = {name: value for name, value in settings.items() if value is not None}
    return SOURCE.read_fields(given, "", problems), problems


_DEFAULTS: Mapping[str, Mapping[str, Any]] = {"lease": {"ttl_s": TTL_S}}
"""Of each kind's own settings."""


def effective(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Checked settings with their defaults."""
    own = {name: {**_DEFAULTS.get(name, {}), **settings[name]} for name in KINDS if name in settings}
    return {"resync_s": RESYNC_S, "replica": {}, **settings, **own}


def misplaced(value: object) -> str:
    """What an entry of a list is, where it is no replica."""
    return f"must be a replica as a group of fields, not {found(value)}"
