"""Reference tables of the page ``docs/fleet-file.md``, made from the rules and the structs' defaults.

``python -m routing.contract.fleet_file.reference docs/fleet-file.md`` writes them into the page; a
test fails while the page says anything else.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from routing.contract.defaults import default_of
from routing.contract.field_rules import ListOf, Number, Rule, Section
from routing.contract.fleet_file.replica_rules import REPLICA
from routing.contract.fleet_file.rules import ACCELERATOR, CLIENT_KEY, FILE, FLEET, HARDWARE, MATCH, TLS
from routing.contract.fleet_file.sources.dns_records import DNS
from routing.contract.fleet_file.sources.kubernetes import KUBERNETES
from routing.contract.fleet_file.sources.lease import LEASE
from routing.contract.fleet_file.sources.source_rules import SOURCE
from routing.contract.fleet_file.sources.source_structs import (
    DnsSettings,
    FileSettings,
    KubernetesSettings,
    LeaseSettings,
    SourceEntry,
)
from routing.contract.fleet_file.sources.watched_file import FILE as FILE_SOURCE
from routing.contract.fleet_file.structs import (
    ClientKeyEntry,
    FleetEntry,
    FleetFile,
    HardwareEntry,
    ReplicaEntry,
)
from routing.contract.metrics_pages import PAGES
from routing.contract.policy import (
    Ejection,
    Fallback,
    Limits,
    Locality,
    Policy,
    Queue,
    Retries,
    Scaling,
    Slo,
    Timeouts,
)
from routing.contract.policy_rules import (
    EJECTION,
    FALLBACK,
    LIMITS,
    LOCALITY,
    POLICY,
    QUEUE,
    RETRIES,
    SCALING,
    SLO,
    TIMEOUTS,
)
from routing.contract.probe import Probe
from routing.contract.probe_presets import PRESETS
from routing.contract.probe_rules import PROBE
from routing.contract.table import AcceleratorSpec, Match, Tls

SECTIONS: dict[str, tuple[Section, type[msgspec.Struct]]] = {
    "file": (FILE, FleetFile),
    "hardware": (HARDWARE, HardwareEntry),
    "accelerator": (ACCELERATOR, AcceleratorSpec),
    "fleet": (FLEET, FleetEntry),
    "match": (MATCH, Match),
    "replica": (REPLICA, ReplicaEntry),
    "source": (SOURCE, SourceEntry),
    "watchedfile": (FILE_SOURCE, FileSettings),
    "leases": (LEASE, LeaseSettings),
    "dns": (DNS, DnsSettings),
    "kubernetes": (KUBERNETES, KubernetesSettings),
    "keys": (CLIENT_KEY, ClientKeyEntry),
    "policy": (POLICY, Policy),
    "timeouts": (TIMEOUTS, Timeouts),
    "limits": (LIMITS, Limits),
    "retries": (RETRIES, Retries),
    "ejection": (EJECTION, Ejection),
    "fallback": (FALLBACK, Fallback),
    "queue": (QUEUE, Queue),
    "locality": (LOCALITY, Locality),
    "slo": (SLO, Slo),
    "scaling": (SCALING, Scaling),
    "probe": (PROBE, Probe),
    "tls": (TLS, Tls),
}

_MARKED = re.compile(r"(<!-- table: (?P<name>[a-z]+) -->\n).*?(<!-- end of table -->)", re.DOTALL)


def refreshed(page: str) -> str:
    """The page with every marked table as it should be. Raises KeyError on an unknown table's name."""
    return _MARKED.sub(lambda match: match[1] + _table(match["name"]) + match[3], page)


def _table(name: str) -> str:
    if name == "presets":
        rows = [
            f"| `{preset}` | {PRESETS[preset].timeout_s:g} s | {PRESETS[preset].words} |"
            for preset in PRESETS
        ]
        return "\n".join(["| preset | timeout | meaning |", "| --- | --- | --- |", *rows, ""])
    if name == "pages":
        rows = [f"| `{preset}` | {page.place} | {page.words} |" for preset, page in PAGES.items()]
        return "\n".join(["| preset | page | what is read of it |", "| --- | --- | --- |", *rows, ""])
    return "\n".join(
        [
            "| field | type and range | unit | default | meaning |",
            "| --- | --- | --- | --- | --- |",
            *_rows(*SECTIONS[name]),
            "",
        ]
    )


def _rows(section: Section, struct: type[msgspec.Struct]) -> Iterator[str]:
    fields = {field.name: field for field in msgspec.structs.fields(struct)}
    for name, rule in section.fields.items():
        default = "**required**" if rule.required else _default(default_of(fields[name]))
        if rule is PROBE.fields["preset"]:
            default = "[by protocol](#presets)"  # an http probe without a path stands for "nothing chosen"
        unit = rule.unit if isinstance(rule, Number) else ""
        yield f"| `{name}` | {_kind(rule)} | {unit} | {default} | {rule.words} |"


def _kind(rule: Rule) -> str:
    """Type and range; a link for a group, or a list of groups, that has a table of its own."""
    inner = rule.item if isinstance(rule, ListOf) else rule
    name = next((name for name, (section, _) in SECTIONS.items() if section is inner), None)
    if name is None:
        return rule.kind()
    return f"list of [{name}](#{name})" if isinstance(rule, ListOf) else f"[{name}](#{name})"


def _default(default: object) -> str:
    if default is None or default == "":
        return "not set"
    if isinstance(default, msgspec.Struct):
        return "as below"
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    if isinstance(default, float):
        return f"`{default:g}`"
    if isinstance(default, dict):
        return "`{}`"
    return f"`{default}`"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(refreshed(path.read_text("utf-8")), "utf-8")
