"""Settings of a Kubernetes service."""

import re

from routing.contract.field_rules import Choice, Section, Text
from routing.contract.fleet_file.sources.dns_records import path_prefix

_LABEL_PREFIX = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?\Z")
_LABEL_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?\Z")
_DNS_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\Z")
_PORT_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,13}[a-z0-9])?\Z")


def _object_name(text: str) -> str:
    if not _DNS_LABEL.match(text):
        raise ValueError(
            f'"{text[:80]}" is no name of a namespace or service: use 1 to 63 lower-case letters, digits and '
            "hyphens"
        )
    return text


def _port(text: str) -> str:
    if text.isdecimal() and 0 < int(text) < 65536:
        return text
    if not _PORT_NAME.match(text) or text.isdecimal():
        raise ValueError(
            f'"{text[:40]}" must be the name of a port of the service, or a number from 1 to 65535'
        )
    return text


def _label(text: str) -> str:
    prefix, slash, name = text.rpartition("/")
    if not _LABEL_NAME.match(name) or (slash and not _LABEL_PREFIX.match(prefix)):
        raise ValueError(f'"{text[:80]}" is no name of a label, as "topology.kubernetes.io/zone"')
    return text


def _label_of(what: str) -> Text:
    return Text(
        words=f"Label of a pod, else of its service, that says its {what}.", what="label", check=_label
    )


LABELS = Section(
    words="Which labels say what of a replica. Not set: none; the site is the zone of the endpoint.",
    what="labels of replicas",
    fields={
        "hardware": _label_of("hardware class"),
        "site": _label_of("site"),
        "version": _label_of("version"),
    },
)

KUBERNETES = Section(
    words="A service in Kubernetes: its EndpointSlices, by list and watch.",
    what="a source of Kubernetes",
    fields={
        "namespace": Text(
            words="Namespace of the service.", what="namespace", check=_object_name, required="models"
        ),
        "service": Text(words="Name of the service.", what="service", check=_object_name, required="llm"),
        "port": Text(
            words="Port of every replica, by its name in the service or as a number in quotes. Not set: the "
            "only one that the service has.",
            what="port",
            check=_port,
        ),
        "scheme": Choice(words="Scheme of every replica. Not set: http.", options=("http", "https")),
        "path_prefix": Text(words="Path prefix of every replica.", what="path", check=path_prefix),
        "labels": LABELS,
    },
)
