"""Drain rules: checks of what is sent to drain a host or an accelerator, or to end that."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controlplane.services.validation import accepted, refuse
from routing.contract.field_rules import Choice, FieldProblem, Flag, Problems, Section, Text


def _name(text: str) -> str:
    """Raises ValueError."""
    if not text or text != text.strip() or len(text) > 255:
        raise ValueError("must be a name, without spaces around it")
    return text


def _one_place(fields: Mapping[str, Any], at: str, problems: Problems) -> None:
    if ("host" in fields) == ("accelerator" in fields):
        problems.append(FieldProblem(at, "needs either host or accelerator: what is to be drained"))


DRAIN = Section(
    words="Replicas to drain together.",
    what="a drain",
    fields={
        "host": Text(
            words="All replicas whose URL names this host, or that run on an accelerator of it (`HOST/…`).",
            what="host",
            check=_name,
        ),
        "accelerator": Text(
            words="All replicas that run on this accelerator.", what="name of an accelerator", check=_name
        ),
        "admin_state": Choice(
            words="`draining` (not set): active ones are drained. `active`: drained ones are active again. "
            "Those in maintenance stay so.",
            options=("draining", "active"),
        ),
        "move": Flag(words="Whether streams that can be continued are moved to other replicas."),
    },
    cross_check=_one_place,
)


@dataclass(frozen=True, slots=True)
class WantedDrain:
    """One of both names is not empty."""

    host: str
    accelerator: str
    ends: bool
    move: bool


def read(settings: Mapping[str, Any]) -> WantedDrain:
    """Raises Invalid."""
    problems: list[FieldProblem] = []
    kept = accepted((DRAIN.read_fields(settings, "", problems), problems))
    ends = kept.get("admin_state") == "active"
    if ends and kept.get("move"):
        refuse([FieldProblem("/move", "is for a drain, which admin_state: active ends")])
    return WantedDrain(kept.get("host", ""), kept.get("accelerator", ""), ends, kept.get("move", False))
