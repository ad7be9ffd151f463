"""Validation rules of a fleet file, its fleets, replicas and hardware classes.

The fleet file and the REST API both check with these rules, so that both say the same. Defaults are
not here: they are in the structs (Policy, Probe and :mod:`routing.contract.fleet_file.structs`).
"""

from collections.abc import Mapping
from typing import Any, get_args

from routing.contract.addresses import certificate_name, normalise_url
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
    count,
)
from routing.contract.fleet_file.structs import FILE_VERSION
from routing.contract.key_limit_rules import KEY_LIMITS
from routing.contract.label_rules import Labels
from routing.contract.matches import normalise_host, normalise_path
from routing.contract.names import DEVICE_RULE, alias_problem, checked_slug, is_device_name
from routing.contract.policy_rules import POLICY
from routing.contract.probe_rules import PROBE
from routing.contract.secret_references import ca_reference, credential_reference
from routing.contract.table import AdminState, ApiProtocol


def _device(text: str) -> str:
    if not is_device_name(text):
        raise ValueError(f'"{text[:140]}" is not a valid name of an accelerator: {DEVICE_RULE}')
    return text


def _alias(text: str) -> str:
    problem = alias_problem(text)
    if problem:
        raise ValueError(problem)
    return text


def _none_or_alias(text: str) -> str:
    return _alias(text) if text else text


def _site(text: str) -> str:
    return checked_slug(text) if text else text


def _server_name(text: str) -> str:
    return certificate_name(text) if text else text


def _name(what: str, example: str) -> Text:
    words = f"Name of the {what}. Cannot change later."
    return Text(words=words, what="name", check=checked_slug, required=example)


def _bytes(words: str, *, minimum: int = 0, nullable: bool = False, required: str = "") -> Number:
    """An amount of a device's memory."""
    return Number(
        words=words,
        minimum=minimum,
        maximum=1_000_000_000_000_000,
        whole=True,
        unit="bytes",
        nullable=nullable,
        required=required,
    )


_WEIGHT_WORDS = "Speed relative to weight 1.0. 0: gets no new requests."

HARDWARE = Section(
    words="A named kind of hardware.",
    what="a hardware class",
    fields={
        "name": _name("hardware class", "h100-80g"),
        "weight": Number(words=_WEIGHT_WORDS, minimum=0, maximum=1000),
    },
)

ACCELERATOR = Section(
    words="One physical device, shared by replicas of any fleet.",
    what="an accelerator",
    fields={
        "name": Text(
            words="Name of the device; begin with the host's name. Cannot change later.",
            what="name of an accelerator",
            check=_device,
            required="node1/gpu0",
        ),
        "memory_bytes": _bytes("Memory of the device.", minimum=1, required="85899345920"),
        "headroom_percent": Number(
            words="Share of the memory that is kept free: no weights, no leases.",
            minimum=0,
            maximum=99,
            unit="percent",
        ),
    },
)

MOVES_WHEN_OUT = "is for a replica that is taken out: set admin_state to draining or maintenance"
"""What is wrong with ``move`` at an active replica."""


def _move_when_out(fields: Mapping[str, Any], at: str, problems: Problems) -> None:
    state = fields.get("admin_state")
    # What changes a replica has no name, and may leave its state as it is.
    if fields.get("move") is True and (state == "active" or (state is None and "name" in fields)):
        problems.append(FieldProblem(f"{at}/move", MOVES_WHEN_OUT))


REPLICA = Section(
    words="One independent instance of the model.",
    what="a replica",
    fields={
        "name": _name("replica, unique in its fleet", "a"),
        "url": Text(
            words="Base URL: `http://host:port` or `https://host:port`, with an optional path prefix.",
            what="URL",
            check=normalise_url,
            required='"http://10.0.0.1:8000"',
        ),
        "hardware": Text(
            words="Hardware class. The replica's weight comes from it.",
            what="name of a hardware class",
            check=checked_slug,
            nullable=True,
        ),
        "weight": Number(
            words=f"{_WEIGHT_WORDS} Not set: the hardware class's weight, or 1.0 without one.",
            minimum=0,
            maximum=1000,
            nullable=True,
        ),
        "max_concurrency": count(
            "Most requests in flight at the replica; more wait. Not set: the policy's value.",
            1_000_000,
            nullable=True,
        ),
        "accelerators": ListOf(
            words="Accelerators that the replica runs on.",
            item=Text(words="Name of an accelerator.", check=_device),
            plural="names",
        ),
        "memory_bytes": _bytes(
            "Memory that the replica holds on each of its accelerators all the time, mainly its weights.",
            nullable=True,
        ),
        "request_bytes": _bytes("Memory that one request takes on each accelerator while it runs."),
        "request_bytes_per_work": Number(
            words="Additional memory of one request on each accelerator, per unit of its estimated work.",
            minimum=0,
            maximum=1_000_000_000_000,
            unit="bytes",
        ),
        "adapters": ListOf(
            words="Which of the fleet's LoRA adapters the replica serves. `[]`: none. Not set: all of them.",
            item=Text(words="Name of an adapter of the fleet.", check=_alias),
            plural="names",
            nullable=True,
        ),
        "site": Text(
            words="Site of the replica. Not set: local to proxies of every site.",
            what="name of a site",
            check=_site,
            nullable=True,
        ),
        "version": Text(
            words="Version of what the replica serves, of its model for one. Only replicas of the same "
            "version continue each other's answers; those without one count as one version.",
            what="name of a version",
            check=_none_or_alias,
            nullable=True,
        ),
        "credential": Text(
            words="Reference to the bearer token that the replica requires: `env:NAME` or `file:/whole/path` "
            "on the hosts of proxies and probes. Not set: the fleet's.",
            what="reference",
            check=credential_reference,
            nullable=True,
        ),
        "admin_state": Choice(
            words="Admin state, set by an operator. Not set: unchanged; a new replica is active.",
            options=get_args(AdminState),
            nullable=True,
        ),
        "move": Flag(
            words="Whether its streams that can be continued are moved to other replicas, while it is "
            "draining or in maintenance. Not set: unchanged; a new replica's are not.",
            nullable=True,
        ),
    },
    cross_check=_move_when_out,
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
        "name": _name("fleet, unique in the file", "llama-3-8b"),
        "protocol": Choice(words="API that clients use.", options=get_args(ApiProtocol), required="openai"),
        "aliases": ListOf(
            words="Other names that clients may use.",
            item=Text(words="Alias.", check=_alias),
            plural="names",
        ),
        "adapters": ListOf(
            words="LoRA adapters that replicas serve as well, all of them unless a replica says otherwise. "
            "Their names are forwarded unchanged.",
            item=Text(words="Name of an adapter.", check=_alias),
            plural="names",
        ),
        "served_model": Text(
            words="Name of the model at the replicas, if it differs from the fleet's name.",
            what="model name",
            check=_none_or_alias,
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
        ),
        "labels": Labels(
            words="Names with values, as `team: search`. Roles can be limited to fleets that have them.",
        ),
        "default": Flag(words="Gets requests that name no fleet. Only one fleet can be the default."),
        "policy": POLICY,
        "probe": PROBE,
        "tls": TLS,
        "replicas": ListOf(words="Replicas of the fleet.", item=REPLICA, plural="replicas"),
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
        "name": _name("client key, unique in the file", "website"),
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
