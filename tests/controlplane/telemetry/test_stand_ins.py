"""Fleets to which requests go that find no replica, as the database says it."""

from controlplane.services import fleets, policies
from controlplane.telemetry import db_snapshot


def test_they_are_those_of_the_policy_with_that_cause(db: None) -> None:
    for name in ("large", "long", "small"):
        fleets.create({"name": name, "protocol": "openai"}, "test")
    listed = [{"fleet": "long", "causes": ["context_length_exceeded"]}, {"fleet": "small"}]

    def stand_ins() -> dict[str, list[str]]:
        return {row.name: row.stand_ins for row in db_snapshot.read().fleets}

    policies.change("large", {"fallback": listed}, "test")
    assert stand_ins() == {"large": ["small"], "long": [], "small": []}
    policies.change("large", {"fallback_budget_percent": 0}, "test")
    assert stand_ins()["large"] == []
