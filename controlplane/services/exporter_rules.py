"""Exporter rules: what may be set of a host's metrics exporter."""

from collections.abc import Mapping
from typing import Any

from routing.contract.addresses import normalise_url
from routing.contract.field_rules import FieldProblem, Problems, Section, Text
from routing.contract.names import checked_slug

EXPORTER = Section(
    words="A metrics exporter of a host: DCGM's, or the node exporter.",
    what="an exporter",
    fields={
        "name": Text(
            words="Name of the exporter. Cannot change later.",
            what="name",
            check=checked_slug,
            required="node1-gpus",
        ),
        "host": Text(
            words="Name of the host, as names of its accelerators begin: `node1` of `node1/gpu0`.",
            what="name of a host",
            check=checked_slug,
            required="node1",
        ),
        "url": Text(
            words="Where its metrics are. Without a path: `/metrics`.",
            what="URL",
            check=normalise_url,
            required='"http://node1:9400"',
        ),
    },
)


def check_exporter(
    settings: Mapping[str, Any], *, partial: bool = False
) -> tuple[dict[str, Any], list[FieldProblem]]:
    """The fields that were set and are valid, and all problems."""
    problems: Problems = []
    return EXPORTER.read_fields(settings, "", problems, partial=partial), problems
