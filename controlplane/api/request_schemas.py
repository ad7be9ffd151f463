"""JSON schemas of what may be sent, made from the very rules that check it."""

from typing import Any

from controlplane.alerts.destinations import DESTINATION
from controlplane.alerts.rule_book import THRESHOLD, QuantityRule
from controlplane.alerts.silences import SILENCE
from controlplane.probes.trial_service import TRIAL
from controlplane.services.client_keys import CLIENT_KEY
from controlplane.services.drain_rules import DRAIN as DRAIN_RULES
from controlplane.services.exporter_rules import EXPORTER
from controlplane.services.keys_required import SETTINGS
from controlplane.services.token_rules import TOKEN
from routing.balancing.strategies import registry
from routing.contract.exposure import ALL, INFERENCE, ExposeRule
from routing.contract.field_rules import Choice, Flag, ListOf, Number, Rule, Scalars, Section, Text
from routing.contract.fleet_file.replica_rules import REPLICA
from routing.contract.fleet_file.rules import ACCELERATOR, FLEET, HARDWARE
from routing.contract.fleet_file.sources.lease import LEASE_REQUEST
from routing.contract.fleet_file.sources.source_rules import SOURCE
from routing.contract.label_rules import MAX_LABELS, Labels
from routing.contract.names import SLUG_PATTERN
from routing.contract.policy_rules import POLICY

SchemaObject = dict[str, Any]


def schema_of(rule: Rule, *, partial: bool = False) -> SchemaObject:
    """``partial``: a merge patch, in which nothing is required and ``null`` goes back to the default."""
    schema = {"description": rule.words, **_body(rule, partial)}
    if rule.nullable:
        kinds = schema.get("type", [])
        listed = kinds if isinstance(kinds, list) else [kinds]
        return {**schema, "type": [*listed, "null"]} if listed else schema
    return schema


def _body(rule: Rule, partial: bool) -> SchemaObject:
    if isinstance(rule, Section):
        return _section(rule, partial)
    if isinstance(rule, Number):
        kind = "integer" if rule.whole else "number"
        return {"type": kind, "minimum": rule.minimum, "maximum": rule.maximum}
    if isinstance(rule, Choice):
        options: list[str | None] = list(rule.options)
        return {"enum": [*options, None] if rule.nullable else options}
    if isinstance(rule, Flag):
        return {"type": "boolean"}
    if isinstance(rule, ListOf):
        most = {} if rule.at_most is None else {"maxItems": rule.at_most}
        return {"type": "array", "items": schema_of(rule.item), "minItems": rule.at_least, **most}
    if isinstance(rule, Labels):
        return {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": MAX_LABELS}
    if isinstance(rule, Scalars):
        scalar = {"type": ["number", "string", "boolean"]}
        return {"type": "object", "additionalProperties": scalar}
    if isinstance(rule, ExposeRule):
        paths = {"type": "array", "items": {"type": "string", "pattern": "^/"}, "minItems": 1}
        return {"oneOf": [{"enum": [INFERENCE, ALL]}, paths, {"type": "null"}]}
    if isinstance(rule, QuantityRule):
        return {"type": ["number", "string"]}
    if isinstance(rule, Text) and rule.what == "name":
        return {"type": "string", "pattern": SLUG_PATTERN.replace(r"\Z", "$")}
    return {"type": "string"}


def _section(rule: Section, partial: bool) -> SchemaObject:
    schema: SchemaObject = {
        "type": "object",
        "properties": {name: schema_of(field, partial=partial) for name, field in rule.fields.items()},
        "additionalProperties": False,
    }
    required = [name for name, field in rule.fields.items() if field.required and not partial]
    if required:
        schema["required"] = required
    return schema


def _without(schema: SchemaObject, *names: str) -> SchemaObject:
    kept = {name: field for name, field in schema["properties"].items() if name not in names}
    return {**schema, "properties": kept}


def _policy(*, partial: bool) -> SchemaObject:
    schema = schema_of(POLICY, partial=partial)
    schema["properties"]["strategy"] = {
        "description": POLICY.fields["strategy"].words,
        "enum": list(registry.names()),
    }
    return schema


def _fleet() -> SchemaObject:
    schema = schema_of(FLEET)
    schema["properties"]["policy"] = _policy(partial=False)
    return _without(schema, "sources")


def _request(schema: SchemaObject) -> dict[str, SchemaObject]:
    return {"application/json": schema}


NEW_FLEET = _request(_fleet())
FLEET_CHANGES = _request(_without(schema_of(FLEET, partial=True), "name", "policy", "replicas", "sources"))
POLICY_CHANGES = _request(_policy(partial=True))
NEW_REPLICA = _request(schema_of(REPLICA))
REPLICA_CHANGES = _request(_without(schema_of(REPLICA, partial=True), "name"))
LEASE = _request(schema_of(LEASE_REQUEST))
NEW_SOURCE = _request(schema_of(SOURCE))
SOURCE_CHANGES = _request(_without(schema_of(SOURCE, partial=True), "name"))
NEW_CLIENT_KEY = _request(schema_of(CLIENT_KEY))
CLIENT_KEY_CHANGES = _request(schema_of(CLIENT_KEY, partial=True))
CLIENT_KEY_SETTINGS = _request(schema_of(SETTINGS))
NEW_ALERT_RULE = _request(schema_of(THRESHOLD))
ALERT_RULE_CHANGES = _request(_without(schema_of(THRESHOLD, partial=True), "name"))
NEW_ALERT_DESTINATION = _request(_without(schema_of(DESTINATION), "new_secret"))
ALERT_DESTINATION_CHANGES = _request(_without(schema_of(DESTINATION, partial=True), "name", "kind"))
NEW_ALERT_SILENCE = _request(schema_of(SILENCE))
NEW_TOKEN = _request(schema_of(TOKEN))
NEW_HARDWARE = _request(schema_of(HARDWARE))
NEW_ACCELERATOR = _request(schema_of(ACCELERATOR))
NEW_EXPORTER = _request(schema_of(EXPORTER))
EXPORTER_CHANGES = _request(_without(schema_of(EXPORTER, partial=True), "name"))
ACCELERATOR_CHANGES = _request(_without(schema_of(ACCELERATOR, partial=True), "name"))
DRAIN = _request(schema_of(DRAIN_RULES))
TRIAL_REQUEST = _request(schema_of(TRIAL))
HARDWARE_CHANGES = _request(_without(schema_of(HARDWARE, partial=True), "name"))
