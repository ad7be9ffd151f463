"""A LiteLLM proxy's ``config.yaml``: all entries of ``model_list`` with one ``model_name`` are one fleet."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from controlplane.importing import litellm_deployment as deployment
from controlplane.importing.litellm_deployment import Deployment
from controlplane.importing.litellm_settings import LiteLLMSettings
from controlplane.importing.model import (
    Draft,
    FleetDraft,
    NotImportable,
    SourcedValue,
    SourceLocation,
    UniqueNames,
)
from routing.contract import input_file
from routing.contract.fleet_file import yaml_document
from routing.contract.fleet_file.parser import MAX_BYTES
from routing.contract.fleet_file.yaml_document import Document
from routing.contract.names import alias_problem, is_slug

_SECTIONS = ("model_list", "router_settings", "litellm_settings", "general_settings")


def read(path: Path) -> Draft:
    """What a LiteLLM configuration says about replicas. Raises NotImportable."""
    draft = Draft(str(path), "litellm")
    content, document = _parsed(path)

    def place(pointer: str) -> SourceLocation:
        return SourceLocation(str(path), document.position_of(pointer, at_key=True).line)

    settings = LiteLLMSettings(content, place, draft)
    groups: dict[str, list[Deployment]] = {}
    for index, entry in enumerate(content["model_list"] or []):
        one = deployment.read(entry, f"/model_list/{index}", place, draft)
        if one is not None:
            groups.setdefault(one.model_name, []).append(one)
    names = UniqueNames()
    # Names that need no change come first: nobody else's changed name may take them.
    slugs = {name: names.take(name, "") for name in groups if is_slug(name)}
    for model_name, members in groups.items():
        name = slugs.get(model_name) or names.take(model_name, f"model-{len(draft.fleets) + 1}")
        fleet = _fleet(name, model_name, members, draft)
        settings.apply(fleet, members)
        draft.fleets.append(fleet)
    settings.unused()
    by_model = dict(zip(groups, draft.fleets, strict=True))
    settings.aliases(by_model)
    settings.fallbacks(by_model)
    for key in content:
        if key not in _SECTIONS:
            draft.note_dropped(place(f"/{key}"), key, "Switchyard has no equivalent")
    return draft


def _parsed(path: Path) -> tuple[Mapping[str, Any], Document]:
    try:
        text = input_file.read(path, MAX_BYTES).decode("utf-8-sig")
    except OSError as error:
        raise NotImportable(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise NotImportable(f"{path}: is not UTF-8 text") from None
    document = yaml_document.read(text)
    if document.flaws:
        flaw = document.flaws[0]
        place = f"{path} line {flaw.place.line}, column {flaw.place.column}"
        raise NotImportable(f"{place}: is not a LiteLLM configuration: {flaw.message}")
    content = document.content
    if not isinstance(content, Mapping) or not isinstance(content.get("model_list"), list):
        raise NotImportable(f"{path}: is not a LiteLLM configuration: it has no model_list with entries")
    return content, document


def _fleet(name: str, model_name: str, members: list[Deployment], draft: Draft) -> FleetDraft:
    first = members[0]
    fleet = FleetDraft(name, f"model_name {model_name}, {first.place}")
    fleet.fields["protocol"] = "openai"
    if name != model_name:
        fleet.fields["aliases"] = [SourcedValue(model_name, "model_name")]
    if first.served_model != name:
        fleet.fields["served_model"] = SourcedValue(first.served_model, f"model, {first.place}")
    if problem := alias_problem(model_name) or alias_problem(first.served_model):
        draft.note_dropped(first.place, model_name, f"the name {problem}")
        return fleet
    replicas = UniqueNames()
    for one in members:
        if one.served_model != first.served_model:
            why = (
                f"replicas of a fleet serve one model, here {first.served_model}: give it a fleet of its own"
            )
            draft.note_dropped(one.place, f"{model_name} on {one.served_model}", why)
            continue
        one.name = replicas.take(one.wanted_name, f"r{one.place.line}")
        fleet.replicas.append(one.replica())
    return fleet
