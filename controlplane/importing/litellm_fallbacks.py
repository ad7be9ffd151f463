"""LiteLLM's fallbacks: lists of models for each model, by kind, as the policy's fallback of fleets.

LiteLLM goes along a list after any failure, and along ``context_window_fallbacks`` where a request is too
long. Lists that lead back to a fleet are cut there, in the order of the file.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from controlplane.importing.model import Draft, FleetDraft, SourcedValue, SourceLocation
from routing.contract.fallbacks import FleetLinks, fallback_problems
from routing.contract.policy import Fallback

TOO_LONG = "context_length_exceeded"
KINDS = ("fallbacks", "default_fallbacks", "context_window_fallbacks")
_KEYS = "a client key has to be for both fleets, unless included says that the first is enough"


class LiteLLMFallbacks:
    """Of all fleets."""

    def __init__(self, fleets: Mapping[str, FleetDraft], draft: Draft) -> None:
        """``fleets``: by the name of their model."""
        self._fleets = {model: fleet for model, fleet in fleets.items() if fleet.replicas}
        self._draft = draft
        self._links = {fleet.name: FleetLinks("openai") for fleet in self._fleets.values()}

    def apply(self, kind: str, value: Any, place: SourceLocation) -> None:
        """Put one setting into the fleets; ``fallbacks`` before ``default_fallbacks``, which are for fleets
        that have none."""
        added = False
        for model, target in self._pairs(kind, value):
            fleet, other = self._fleets.get(model), self._fleets.get(target)
            if fleet is None or other is None:
                missing = model if fleet is None else target
                self._draft.note_dropped(
                    place, f"{kind} {model} to {target}", f"{missing} is not carried over"
                )
            else:
                added = self._add(fleet, other, kind, place) or added
        if added:
            self._draft.note_changed(place, kind, _KEYS)

    def _pairs(self, kind: str, value: Any) -> Iterator[tuple[str, str]]:
        """(Model, fallback), in order."""
        groups = value if isinstance(value, list) else []
        if kind == "default_fallbacks":
            without = [
                model for model, fleet in self._fleets.items() if not self._links[fleet.name].fallbacks
            ]
            groups = [{model: [one for one in groups if one != model]} for model in without]
        for group in groups:
            for model, targets in group.items() if isinstance(group, Mapping) else ():
                for target in targets if isinstance(targets, list) else [targets]:
                    name = target.get("model") if isinstance(target, Mapping) else target
                    if isinstance(model, str) and isinstance(name, str):
                        yield model, name

    def _add(self, fleet: FleetDraft, other: FleetDraft, kind: str, place: SourceLocation) -> bool:
        causes = [TOO_LONG] if kind == "context_window_fallbacks" else [*Fallback(fleet=other.name).causes]
        entries: list[dict[str, Any]] = fleet.policy().setdefault("fallback", [])
        present = next((one for one in entries if one["fleet"].value == other.name), None)
        if present is not None:
            present["causes"] = [*present["causes"], *(one for one in causes if one not in present["causes"])]
            return True
        links = self._links[fleet.name]
        tried = links._replace(fallbacks=(*links.fallbacks, other.name))
        listed = [{"fleet": other.name}]
        problems = fallback_problems(fleet.name, listed, {**self._links, fleet.name: tried}, "")
        if problems:
            self._draft.note_dropped(place, f"{kind} {fleet.name} to {other.name}", problems[0].message)
            if not entries:
                del fleet.policy()["fallback"]
            return False
        self._links[fleet.name] = tried
        entries.append({"fleet": SourcedValue(other.name, f"{kind}, {place}"), "causes": causes})
        return True
