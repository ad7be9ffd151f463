"""Serializers of answers, made from the very rules that check what is sent."""

from collections.abc import Mapping
from typing import Any

import msgspec
from rest_framework import serializers

from routing.contract.field_rules import Choice, Flag, ListOf, Number, Rule, Section, Text

Field = serializers.Field[Any, Any, Any, Any]


def section_serializer(name: str, section: Section, words: str = "") -> type[serializers.Serializer[Any]]:
    """A group's values in force, each field as its rule has it. ``words``: what the OpenAPI document says."""
    fields = {
        field: _field(rule, allow_null=isinstance(rule, Number) and rule.nullable)
        for field, rule in section.fields.items()
    }
    return type(f"{name}Serializer", (serializers.Serializer,), {**fields, "__doc__": words})


def setting_fields(
    section: Section, entry: type[msgspec.Struct], words: Mapping[str, str]
) -> dict[str, Field]:
    """The settings of a group as answers have them, in its order.

    ``entry``: the struct with their defaults. A setting may be null where its default is ``None``, and empty
    where that is empty text. ``words``: descriptions that replace the rule's.
    """
    defaults = {field.name: field.default for field in msgspec.structs.fields(entry)}
    return {
        name: _field(rule, help_text=words.get(name, rule.words), **_unset(defaults[name]))
        for name, rule in section.fields.items()
    }


def _unset(default: object) -> dict[str, bool]:
    """Options of a field that is ``default`` while nothing is set."""
    if default is None:
        return {"allow_null": True}
    return {"allow_blank": True} if default == "" else {}


def _field(rule: Rule, **options: Any) -> Field:
    """Raises TypeError for a kind of rule that no such group has yet. ``options``: of its field."""
    if isinstance(rule, Number):
        kind = serializers.IntegerField if rule.whole else serializers.FloatField
        return kind(**options)
    if isinstance(rule, Choice):
        return serializers.ChoiceField(choices=list(rule.options), **options)
    if isinstance(rule, ListOf):
        return serializers.ListField(child=_field(rule.item), **options)
    if isinstance(rule, Flag):
        return serializers.BooleanField(**options)
    if isinstance(rule, Text):
        return serializers.CharField(**options)
    if isinstance(rule, Section):
        return serializers.DictField(child=serializers.CharField(), **options)
    raise TypeError(f"no serializer field for {type(rule).__name__}")
