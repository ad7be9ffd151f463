"""Validation rules of a fleet file, its fleets, replicas and hardware classes.

The fleet file and the REST API both check with these rules, so that both say the same. Defaults are
not here: they are in the structs (Policy, Probe and :mod:`routing.contract.fleet_file.structs`).
"""

from collections.abc import Mapping
from typing import Any, get_args

from routing.contract.addresses import certificate_name
from routing.contract.exposure import ExposeRule
from routing.contract.field_rules import (
    Choice,
    FieldProblem,
    Flag,
    ListOf,
    Number,
    Problems,
    Section,
    Text,
)
from routing.contract.fleet_file.replica_rules import (
    REPLICA,
    WEIGHT_WORDS,
    checked_alias,
    checked_device,
    memory,
    name_of,
    none_or_alias,
)
from routing.contract.fleet_file.sources.source_rules import MOST_SOURCES, SOURCE
from routing.contract.fleet_file.structs import FILE_VERSION
from routing.contract.key_limit_rules import KEY_LIMITS
from routing.contract.label_rules import Labels
from routing.contract.matches import normalise_host, normalise_path
from routing.contract.names import checked_slug
from routing.contract.policy_rules import POLICY
from routing.contract.probe_rules import PROBE
from routing.contract.secret_references import ca_reference, credential_reference
from routing.contract.table import ApiProtocol


def _server_name(text: str) -> str:
    return certificate_name(text) if text else text


HARDWARE = Section(
    words="A named kind of hardware.",
    what="a hardware class",
    fields={
        "name": name_of("hardware class", "h100-80g"),
        "weight": Number(words=WEIGHT_WORDS, minimum=0, maximum=1000),
    },
)

ACCELERATOR = Section(
    words="One physical device, shared by replicas of any fleet.",
    what="an accelerator",
    fields={
        "name": Text(
            words="Name of the device; begin with the host's name. Cannot change later.",
            what="name of an accelerator",
            check=checked_device,
            required="node1/gpu0",
        ),
        "memory_bytes": memory("Memory of the device.", minimum=1, required="85899345920"),
        "headroom_percent": Number(
            words="Share of the memory that is kept free: no weights, no leases.",
            minimum=0,
            maximum=99,
            unit="percent",
        ),
    },
)


def _something_to_match(fields: Mapping[str, Any], at: str, problems: Problems) -> None:
    host, path = fields.get("host", ""), fields.get("path_prefix", "")
    misspelt = fields.keys() - {"host", "path_prefix"}
    if not misspelt and host == "" and isinstance(path, str) and not path.strip("/"):
        message = "matches every request: give it a host or a path_prefix, or set default: true on the fleet"
        problems.append(FieldProblem(at, message))


MATCH = Section(
    words="Routes requests to the fleet by host and path.",
    what="a match",
    fields={
        "host": Text(
            words="Host name, or `*.` and a suffix; without a port. Not set: any host.",
            what="host name",
            check=normalise_host,
        ),
        "path_prefix": Text(
            words="Path prefix of whole segments. The path is forwarded unchanged. Not set: any path.",
            what="path",
            check=normalise_path,
        ),
    },
    cross_check=_something_to_match,
)

TLS = Section(
    words="How replicas with an `https` URL are verified.",
    what="tls",
    fields={
        "ca": Text(
            words="Reference to the trusted CA certificates (PEM): `file:/whole/path` or `env:NAME` on the "
            "hosts of proxies and probes. Not set: the system's.",
            what="reference",
            check=ca_reference,
        ),
        "server_name": Text(
            words="Name that the certificates must be valid for, also sent as SNI. Not set: the URL's host.",
            what="host name or IP address",
            check=_server_name,
        ),
    },
)

FLEET = Section(
    words="All replicas that serve one model.",
    what="a fleet",
    fields={
        "name": name_of("fleet, unique in the file", "llama-3-8b"),
        "protocol": Choice(words="API that clients use.", options=get_args(ApiProtocol), required="openai"),
        "aliases": ListOf(
            words="Other names that clients may use.",
            item=Text(words="Alias.", check=checked_alias),
            plural="names",
            at_most=1000,
        ),
        "adapters": ListOf(
            words="LoRA adapters that replicas serve as well, all of them unless a replica says otherwise. "
            "Their names are forwarded unchanged.",
            item=Text(words="Name of an adapter.", check=checked_alias),
            plural="names",
            at_most=10_000,
        ),
        "served_model": Text(
            words="Name of the model at the replicas, if it differs from the fleet's name.",
            what="model name",
            check=none_or_alias,
        ),
        "expose": ExposeRule(
            nullable=True,
            words="What clients may reach at the replicas: calls of its API (`inference`), everything "
            "(`all`), or these paths and what is below them ([more](proxy.md#what-clients-may-reach)).",
        ),
        "credential": Text(
            words="Reference to the bearer token for replicas without one of their own: `env:NAME` or "
            "`file:/whole/path`. Not set: none is sent.",
            what="reference",
            check=credential_reference,
        ),
        "match": ListOf(
            words="Hosts and paths that are routed to this fleet.",
            item=MATCH,
            plural="matches",
            at_most=1000,
        ),
        "labels": Labels(
            words="Names with values, as `team: search`. Roles can be limited to fleets that have them.",
        ),
        "default": Flag(words="Gets requests that name no fleet. Only one fleet can be the default."),
        "policy": POLICY,
        "probe": PROBE,
        "tls": TLS,
        "replicas": ListOf(words="Replicas of the fleet.", item=REPLICA, plural="replicas"),
        "sources": ListOf(
            words="What lists further replicas ([discovery](discovery.md)): of a control plane only. Not "
            "set: those that the fleet has stay as they are.",
            item=SOURCE,
            plural="sources",
            at_most=MOST_SOURCES,
            nullable=True,
        ),
    },
)


def _key_reference(text: str) -> str:
    kind, _, rest = text.partition(":")
    if kind not in ("env", "file") or not rest:
        raise ValueError(
            "must be a reference to the key, not the key itself: env:NAME (an environment variable of the "
            "proxy) or file:PATH"
        )
    return text


CLIENT_KEY = Section(
    words="A client key of a proxy that runs from this file.",
    what="a client key",
    fields={
        "name": name_of("client key, unique in the file", "website"),
        "key": Text(
            words="Reference to the key: `env:NAME` or `file:PATH`. Never the key itself.",
            what="reference",
            check=_key_reference,
            required='"env:WEBSITE_KEY"',
        ),
        "fleets": ListOf(
            words="Fleets that the key may use. Not set: every fleet.",
            item=Text(words="Name of a fleet.", check=checked_slug),
            plural="fleets",
            at_least=1,
            at_most=1000,
            distinct=True,
            nullable=True,
        ),
        **KEY_LIMITS,
    },
)

FILE = Section(
    words="The whole file.",
    what="a fleet file",
    fields={
        "version": Number(
            words="Version of the file's format.", minimum=FILE_VERSION, maximum=FILE_VERSION, whole=True
        ),
        "hardware": ListOf(words="Hardware classes.", item=HARDWARE, plural="hardware classes"),
        "accelerators": ListOf(words="Devices that replicas share.", item=ACCELERATOR, plural="accelerators"),
        "fleets": ListOf(
            words="The fleets. `fleets: []`: none.",
            item=FLEET,
            plural="fleets",
            required="[]",
        ),
        "client_keys": ListOf(
            words="Client keys of a proxy that runs from this file. A control plane stores its own.",
            item=CLIENT_KEY,
            plural="client keys",
        ),
        "keys_required": Flag(
            words="Whether every request to a proxy that runs from this file needs a client key. "
            "Not set: [it depends](#keys).",
            nullable=True,
        ),
    },
)


def check_replica(
    settings: Mapping[str, Any], *, partial: bool = False
) -> tuple[dict[str, Any], list[FieldProblem]]:
    """Check a replica as the fleet file does. ``partial``: only changed fields are given."""
    return _check(REPLICA, settings, partial=partial)


def check_fleet(
    settings: Mapping[str, Any], *, partial: bool = False
) -> tuple[dict[str, Any], list[FieldProblem]]:
    """Check a fleet as the fleet file does, without the checks that need the other fleets."""
    return _check(FLEET, settings, partial=partial)


def check_hardware(
    settings: Mapping[str, Any], *, partial: bool = False
) -> tuple[dict[str, Any], list[FieldProblem]]:
    """Check a hardware class as the fleet file does."""
    return _check(HARDWARE, settings, partial=partial)


def check_accelerator(
    settings: Mapping[str, Any], *, partial: bool = False
) -> tuple[dict[str, Any], list[FieldProblem]]:
    """Check an accelerator as the fleet file does, without the checks that need its replicas."""
    return _check(ACCELERATOR, settings, partial=partial)


def _check(
    section: Section, settings: Mapping[str, Any], *, partial: bool
) -> tuple[dict[str, Any], list[FieldProblem]]:
    problems: Problems = []
    return section.read_fields(settings, "", problems, partial=partial), problems
