"""Validation rules of a fleet file, its fleets, replicas and hardware classes.

The fleet file and the REST API both check with these rules, so that both say the same. Defaults are
not here: they are in the structs (Policy, Probe and :mod:`routing.contract.fleet_file.structs`).
"""

from collections.abc import Mapping
from typing import Any, get_args

from routing.contract.addresses import certificate_name, normalise_url
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
from routing.contract.matches import normalise_host, normalise_path
from routing.contract.names import DEVICE_RULE, SLUG_RULE, alias_problem, is_device_name, is_slug
from routing.contract.policy_rules import POLICY
from routing.contract.probe_rules import PROBE
from routing.contract.secret_references import ca_reference, credential_reference
from routing.contract.table import AdminState, Protocol


def _slug(text: str) -> str:
    if not is_slug(text):
        raise ValueError(f'"{text[:80]}" is not a valid name: {SLUG_RULE}')
    return text


def _device(text: str) -> str:
    if not is_device_name(text):
        raise ValueError(f'"{text[:140]}" is not a valid name of an accelerator: {DEVICE_RULE}')
    return text


def _alias(text: str) -> str:
    problem = alias_problem(text)
    if problem:
        raise ValueError(problem)
    return text


def _served_model(text: str) -> str:
    return _alias(text) if text else text


def _site(text: str) -> str:
    return _slug(text) if text else text


def _server_name(text: str) -> str:
    return certificate_name(text) if text else text


def _name(what: str, example: str) -> Text:
    return Text(words=f"Name of the {what}. Cannot change later.", what="name", check=_slug, required=example)


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


_WEIGHT_WORDS = "Speed relative to weight 1.0; 0 receives nothing new."

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
            words="Name of the device, its host's above all. Cannot change later.",
            what="name of an accelerator",
            check=_device,
            required="node1/gpu0",
        ),
        "memory_bytes": _bytes("Its memory.", minimum=1, required="85899345920"),
        "headroom_percent": Number(
            words="Of its memory, kept free of weights and leases.", minimum=0, maximum=99, unit="percent"
        ),
    },
)

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
            words="Hardware class that the weight comes from.",
            what="name of a hardware class",
            check=_slug,
            nullable=True,
        ),
        "weight": Number(
            words=f"{_WEIGHT_WORDS} Not set: the hardware class's weight, or 1.0 without one.",
            minimum=0,
            maximum=1000,
            nullable=True,
        ),
        "max_concurrency": count(
            "Requests it works on at once; more wait. Not set: as the policy says.",
            1_000_000,
            nullable=True,
        ),
        "accelerators": ListOf(
            words="Accelerators that it runs on.",
            item=Text(words="Name of an accelerator.", check=_device),
            plural="names",
        ),
        "memory_bytes": _bytes(
            "What it holds on each of them as long as it runs: its weights, above all.", nullable=True
        ),
        "request_bytes": _bytes("What one request takes on each of them while it runs."),
        "request_bytes_per_work": Number(
            words="What one request takes on each of them besides, for each unit of its work.",
            minimum=0,
            maximum=1_000_000_000_000,
            unit="bytes",
        ),
        "site": Text(
            words="Site that it is at. Not set: near to proxies of every site.",
            what="name of a site",
            check=_site,
            nullable=True,
        ),
        "credential": Text(
            words="Where the bearer token is that it wants: `env:NAME` or `file:/whole/path`, where proxies "
            "and probes run. Not set: as the fleet says.",
            what="reference",
            check=credential_reference,
            nullable=True,
        ),
        "admin_state": Choice(
            words="What the operator wants. Not set: left as it is; a new replica is active.",
            options=get_args(AdminState),
            nullable=True,
        ),
    },
    reserved=frozenset({"version"}),
)


def _something_to_match(fields: Mapping[str, Any], at: str, problems: Problems) -> None:
    host, path = fields.get("host", ""), fields.get("path_prefix", "")
    misspelt = fields.keys() - {"host", "path_prefix"}
    if not misspelt and host == "" and isinstance(path, str) and not path.strip("/"):
        message = "matches every request: give it a host or a path_prefix, or set default: true on the fleet"
        problems.append(FieldProblem(at, message))


MATCH = Section(
    words="Requests of a fleet, by host and path.",
    what="a match",
    fields={
        "host": Text(
            words="A name, or `*.` and what it ends with; without a port. Not set: any host.",
            what="host name",
            check=normalise_host,
        ),
        "path_prefix": Text(
            words="Whole segments that the path begins with; it is forwarded as it is. Not set: any path.",
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
            words="Where the CA certificates to trust are, in PEM: `file:/whole/path` or `env:NAME`, where "
            "proxies and probes run. Not set: the system's.",
            what="reference",
            check=ca_reference,
        ),
        "server_name": Text(
            words="Name that their certificates are for. Not set: the URL's host.",
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
        "protocol": Choice(words="What clients speak.", options=get_args(Protocol), required="openai"),
        "aliases": ListOf(
            words="Other names that clients may use.",
            item=Text(words="Alias.", check=_alias),
            plural="names",
        ),
        "adapters": ListOf(
            words="Names of LoRA adapters that the replicas serve besides; they reach them unchanged.",
            item=Text(words="Name of an adapter.", check=_alias),
            plural="names",
        ),
        "served_model": Text(
            words="The model's name as the replicas know it, when it differs from the fleet's.",
            what="model name",
            check=_served_model,
        ),
        "credential": Text(
            words="Where the bearer token is that replicas want which name none of their own: `env:NAME` or "
            "`file:/whole/path`. Not set: none is sent.",
            what="reference",
            check=credential_reference,
        ),
        "match": ListOf(
            words="Hosts and paths whose requests are this fleet's.",
            item=MATCH,
            plural="matches",
        ),
        "default": Flag(words="Takes requests that name no fleet. At most one fleet."),
        "policy": POLICY,
        "probe": PROBE,
        "tls": TLS,
        "replicas": ListOf(words="Its replicas.", item=REPLICA, plural="replicas"),
    },
)


def _key_reference(text: str) -> str:
    kind, _, rest = text.partition(":")
    if kind not in ("env", "file") or not rest:
        raise ValueError(
            "says where the key is, never the key itself: env:NAME (an environment variable of the proxy) "
            "or file:PATH"
        )
    return text


CLIENT_KEY = Section(
    words="A key that clients of a proxy that runs from this file present.",
    what="a client key",
    fields={
        "name": _name("client key, unique in the file", "website"),
        "key": Text(
            words="Where the proxy finds the key: `env:NAME` or `file:PATH`; never the key itself.",
            what="reference",
            check=_key_reference,
            required='"env:WEBSITE_KEY"',
        ),
        "fleets": ListOf(
            words="Names of the fleets that it opens. Not set: every fleet.",
            item=Text(words="Name of a fleet.", check=_slug),
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
        "accelerators": ListOf(
            words="Devices whose memory replicas share.", item=ACCELERATOR, plural="accelerators"
        ),
        "fleets": ListOf(
            words="The fleets. `fleets: []` says that there are none.",
            item=FLEET,
            plural="fleets",
            required="[]",
        ),
        "client_keys": ListOf(
            words="Client keys of a proxy that runs from this file; a control plane has its own.",
            item=CLIENT_KEY,
            plural="client keys",
        ),
    },
)


def check_replica(
    settings: Mapping[str, Any], *, partial: bool = False
) -> tuple[dict[str, Any], list[FieldProblem]]:
    """As a fleet file's replica; ``partial`` when only changed fields are given."""
    return _check(REPLICA, settings, partial=partial)


def check_fleet(
    settings: Mapping[str, Any], *, partial: bool = False
) -> tuple[dict[str, Any], list[FieldProblem]]:
    """As a fleet of a fleet file, without the checks that need the other fleets."""
    return _check(FLEET, settings, partial=partial)


def check_hardware(
    settings: Mapping[str, Any], *, partial: bool = False
) -> tuple[dict[str, Any], list[FieldProblem]]:
    """As a hardware class of a fleet file."""
    return _check(HARDWARE, settings, partial=partial)


def check_accelerator(
    settings: Mapping[str, Any], *, partial: bool = False
) -> tuple[dict[str, Any], list[FieldProblem]]:
    """As an accelerator of a fleet file, without the checks that need the replicas on it."""
    return _check(ACCELERATOR, settings, partial=partial)


def _check(
    section: Section, settings: Mapping[str, Any], *, partial: bool
) -> tuple[dict[str, Any], list[FieldProblem]]:
    problems: Problems = []
    return section.read_fields(settings, "", problems, partial=partial), problems
