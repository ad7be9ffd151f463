"""Validation rules of a replica: in a fleet file, in a request of the API, in what a source lists."""

from collections.abc import Mapping
from typing import Any, get_args

from routing.contract.addresses import normalise_url
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
from routing.contract.names import DEVICE_RULE, alias_problem, checked_slug, is_device_name
from routing.contract.secret_references import credential_reference
from routing.contract.table import AdminState


def checked_device(text: str) -> str:
    if not is_device_name(text):
        raise ValueError(f'"{text[:140]}" is not a valid name of an accelerator: {DEVICE_RULE}')
    return text


def checked_alias(text: str) -> str:
    problem = alias_problem(text)
    if problem:
        raise ValueError(problem)
    return text


def none_or_alias(text: str) -> str:
    return checked_alias(text) if text else text


def _site(text: str) -> str:
    return checked_slug(text) if text else text


def name_of(what: str, example: str) -> Text:
    words = f"Name of the {what}. Cannot change later."
    return Text(words=words, what="name", check=checked_slug, required=example)


def memory(words: str, *, minimum: int = 0, nullable: bool = False, required: str = "") -> Number:
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


WEIGHT_WORDS = "Speed relative to weight 1.0. 0: gets no new requests."

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
        "name": name_of("replica, unique in its fleet", "a"),
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
            words=f"{WEIGHT_WORDS} Not set: the hardware class's weight, or 1.0 without one.",
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
            item=Text(words="Name of an accelerator.", check=checked_device),
            plural="names",
        ),
        "memory_bytes": memory(
            "Memory that the replica holds on each of its accelerators all the time, mainly its weights.",
            nullable=True,
        ),
        "request_bytes": memory("Memory that one request takes on each accelerator while it runs."),
        "request_bytes_per_work": Number(
            words="Additional memory of one request on each accelerator, per unit of its estimated work.",
            minimum=0,
            maximum=1_000_000_000_000,
            unit="bytes",
        ),
        "adapters": ListOf(
            words="Which of the fleet's LoRA adapters the replica serves. `[]`: none. Not set: all of them.",
            item=Text(words="Name of an adapter of the fleet.", check=checked_alias),
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
            check=none_or_alias,
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
