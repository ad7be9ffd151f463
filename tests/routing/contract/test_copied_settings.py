"""What is copied from a fleet file or a row means the same in the table."""

import msgspec
import pytest

from routing.contract.copied_settings import COPIED
from routing.contract.fleet_file.structs import ReplicaEntry
from routing.contract.table import ReplicaSpec


def test_settings_that_refer_to_something_else_are_not_copied() -> None:
    shared = set(ReplicaEntry.__struct_fields__) & set(ReplicaSpec.__struct_fields__)
    resolved = {"weight", "hardware", "accelerators", "admin_state", "move", "credential"}
    assert shared - set(COPIED) == resolved


@pytest.mark.parametrize("name", COPIED)
def test_a_copied_setting_has_one_type_and_one_default(name: str) -> None:
    of_file, of_table = (
        next(field for field in msgspec.structs.fields(struct) if field.name == name)
        for struct in (ReplicaEntry, ReplicaSpec)
    )
    assert (of_file.type, of_file.default) == (of_table.type, of_table.default)
