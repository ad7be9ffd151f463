"""Trial service: probes of an address, alone or as a replica of a fleet. Nothing is written."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from controlplane.models import Fleet
from controlplane.probes import trial_probe
from controlplane.probes.trial_probe import TrialResult, TrialTarget
from controlplane.services import effective_settings
from controlplane.services.errors import FieldError, Invalid
from controlplane.services.lookup import fleet_named
from controlplane.services.validation import accepted
from routing.contract.field_rules import Problems, Section, Text
from routing.contract.fleet_file.replica_rules import REPLICA
from routing.contract.fleet_file.rules import FLEET
from routing.contract.table import ApiProtocol

MOST_TRIED = 20
"""Replicas of a new fleet: a person waits for them, and a list of words that long is read by nobody."""

TRIAL = Section(
    words="An address to probe.",
    what="a trial",
    fields={
        "url": REPLICA.fields["url"],
        "fleet": Text(words="Probe as this fleet's probes do.", what="name of a fleet", nullable=True),
        "protocol": replace(
            FLEET.fields["protocol"],
            words="API that clients use. Not set: the fleet's; without a fleet openai.",
            required="",
            nullable=True,
        ),
        "model": replace(
            FLEET.fields["served_model"],
            words="The model's name at the server. Not set: the fleet's.",
            nullable=True,
        ),
        "probe": replace(
            FLEET.fields["probe"], words="How to probe it. Not set: the fleet's probe.", nullable=True
        ),
        "tls": replace(
            FLEET.fields["tls"],
            words="How to verify its certificate. Not set: the fleet's setting.",
            nullable=True,
        ),
        "credential": replace(
            REPLICA.fields["credential"],
            words="Reference to its bearer token: `env:NAME` or `file:/whole/path`. Not set: the fleet's.",
            nullable=True,
        ),
    },
)
"""What may be sent; the same rules as a fleet's and a replica's."""


def attempt(settings: Mapping[str, Any]) -> TrialResult:
    """Checks ``settings`` (as TRIAL says) and tries the address; at most 5 s. Raises Invalid, NotFound."""
    problems: Problems = []
    given = {
        name: value
        for name, value in accepted((TRIAL.read_fields(settings, "", problems), problems)).items()
        if value is not None
    }
    fleet = fleet_named(given["fleet"]) if given.get("fleet") else None
    return trial_probe.run(subject(given, fleet))


def of_replica(fleet: Fleet, url: str, credential: str) -> TrialResult:
    """Tries the normalised ``url`` as this fleet's probes will. Raises Invalid where no replica may be."""
    found = trial_probe.run(subject({"url": url, "credential": credential}, fleet))
    if found.outcome == "refused":
        raise Invalid([FieldError("/url", found.words)])
    return found


def of_new_fleet(kept: Mapping[str, Any]) -> dict[str, TrialResult]:
    """Replica's name → its trial, of a fleet's checked settings that are not written yet.

    Empty where there are more than MOST_TRIED replicas. Raises Invalid as :func:`of_replica`.
    """
    replicas = kept.get("replicas", [])
    if not 0 < len(replicas) <= MOST_TRIED:
        return {}
    settings = {
        "protocol": kept["protocol"],
        "model": kept.get("served_model") or kept["name"],
        "probe": kept.get("probe", {}),
        "tls": kept.get("tls", {}),
        "credential": kept.get("credential", ""),
    }
    found = trial_probe.run_all([subject(_tried(settings, replica), None) for replica in replicas])
    refused = [
        FieldError(f"/replicas/{index}/url", one.words)
        for index, one in enumerate(found)
        if one.outcome == "refused"
    ]
    if refused:
        raise Invalid(refused)
    return {replica["name"]: one for replica, one in zip(replicas, found, strict=True)}


def _tried(settings: Mapping[str, Any], replica: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **settings,
        "url": replica["url"],
        "credential": replica.get("credential") or settings["credential"],
    }


def subject(given: Mapping[str, Any], fleet: Fleet | None) -> TrialTarget:
    """What to try; settings that are not ``given`` are the fleet's."""
    probe = given.get("probe", fleet.probe if fleet else {})
    protocol = given.get("protocol", fleet.protocol if fleet else "openai")
    model = given.get("model") or (fleet.served_model or fleet.name if fleet else "")
    return TrialTarget(
        url=given["url"],
        protocol=msgspec.convert(protocol, ApiProtocol),
        model=model,
        probe=effective_settings.probe_of(probe),
        tls=effective_settings.tls_of(given.get("tls", fleet.tls if fleet else {})),
        credential=given.get("credential") or (fleet.credential if fleet else ""),
    )
