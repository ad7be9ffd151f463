"""The pages' list of a replica's settings is that of the rules that check them."""

from routing.contract.fleet_file.replica_rules import REPLICA
from tests.dashboard.jsdoc import typedefs


def test_the_typedef_has_every_setting_of_a_replica() -> None:
    answered_only = {"managed_by?"}
    assert set(typedefs("edit/replica_fields.js")["ReplicaSettings"]) == set(REPLICA.fields) | answered_only
