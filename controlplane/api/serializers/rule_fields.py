"""Serializers of answers, made from the very rules that check what is sent."""

from typing import Any

from rest_framework import serializers

from routing.contract.field_rules import Choice, Flag, ListOf, Number, Rule, Section, Text


def section_serializer(name: str, section: Section, words: str = "") -> type[serializers.Serializer[Any]]:
    """A group's values in force, each field as its rule has it. ``words``: what the OpenAPI document says."""
    fields = {field: _field(rule) for field, rule in section.fields.items()}
    return type(f"{name}Serializer", (serializers.Serializer,), {**fields, "__doc__": words})


def _field(rule: Rule) -> serializers.Field[Any, Any, Any, Any]:
    """Raises TypeError for a kind of rule that no such group has yet."""
    if isinstance(rule, Number):
        return serializers.IntegerField() if rule.whole else serializers.FloatField()
    if isinstance(rule, Choice):
        return serializers.ChoiceField(choices=list(rule.options))
    if isinstance(rule, ListOf):
        return serializers.ListField(child=_field(rule.item))
    if isinstance(rule, Flag):
        return serializers.BooleanField()
    if isinstance(rule, Text):
        return serializers.CharField()
    raise TypeError(f"no serializer field for {type(rule).__name__}")
