"""``proxy_ssl_…`` as a fleet's ``tls``. nginx verifies nothing unless told to; here replicas always are."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from controlplane.importing.model import Draft, FleetDraft, SourcedValue, SourceLocation
from controlplane.importing.nginx_file import Directive
from routing.contract.addresses import certificate_name, parse_base_url
from routing.contract.secret_references import ca_reference

Way = tuple[str, Mapping[str, Directive], SourceLocation]
"""Upstream, settings and place of one ``proxy_pass https://…``."""

_ALWAYS = (
    "nginx does not verify certificates without proxy_ssl_verify on; here they always are: set tls.ca where "
    "their CA is one of your own, and tls.server_name where they are not for the hosts in the URLs"
)


def verification(fleet: FleetDraft, ways: Sequence[Way], draft: Draft) -> None:
    """Put what these ways say of certificates into their fleet."""
    for _, settings, place in ways:
        verify = settings.get("proxy_ssl_verify")
        if verify is None:
            draft.note_changed(place, "proxy_pass https://", _ALWAYS)
        elif not _verifies(settings):
            draft.note_changed(verify.place, str(verify), _ALWAYS)
    tls: dict[str, Any] = {}
    ca = _one("proxy_ssl_trusted_certificate", ways, draft)
    if ca is not None:
        # What is relative begins beside nginx's main file.
        path = Path(draft.source).absolute().parent / ca.args[0]
        _take(tls, "ca", ca_reference, f"file:{path}", ca, draft)
    name = _one("proxy_ssl_name", ways, draft)
    if name is not None:
        _take(tls, "server_name", certificate_name, name.args[0], name, draft)
    elif _verifies(ways[0][1]):
        tls |= _upstream_as_name(fleet, ways[0])
    if tls:
        fleet.fields["tls"] = tls


def _verifies(settings: Mapping[str, Directive]) -> bool:
    verify = settings.get("proxy_ssl_verify")
    return verify is not None and verify.args == ("on",)


def _one(name: str, ways: Sequence[Way], draft: Draft) -> Directive | None:
    """What they say; where they differ, the first."""
    found = [settings[name] for _, settings, _ in ways if name in settings]
    for other in found[1:]:
        if other.args != found[0].args:
            draft.note_dropped(
                other.place, str(other), f"a fleet has one value: that of {found[0].place} is used"
            )
    return found[0] if found else None


def _take(
    tls: dict[str, Any], field: str, check: Any, value: str, directive: Directive, draft: Draft
) -> None:
    try:
        tls[field] = SourcedValue(check(value), f"{directive.name}, {directive.place}")
    except ValueError as error:
        draft.note_dropped(directive.place, str(directive), str(error))


def _upstream_as_name(fleet: FleetDraft, way: Way) -> dict[str, Any]:
    """nginx wants certificates for what stands in ``proxy_pass``: of an upstream, its name."""
    upstream, _, place = way
    try:
        name = certificate_name(upstream.partition(":")[0])
    except ValueError:
        return {}
    if all(parse_base_url(replica["url"].value).host == name for replica in fleet.replicas):
        return {}
    return {"server_name": SourcedValue(name, f"proxy_pass https://{upstream}, {place}")}
