"""System types: the system page's JSDoc in ``health_level.js`` says what ``GET /api/v1/system`` answers."""

import msgspec
import pytest

from controlplane.system import status
from tests.dashboard.jsdoc import js_type, structs_of, typedefs

STRUCTS = structs_of(status)
TYPEDEFS = typedefs("system/health_level.js")


def test_every_struct_has_its_typedef_and_no_other_is_there() -> None:
    assert sorted(TYPEDEFS) == sorted(STRUCTS)


@pytest.mark.parametrize("name", sorted(STRUCTS))
def test_a_typedef_has_the_fields_of_its_struct(name: str) -> None:
    fields = msgspec.structs.fields(STRUCTS[name])
    assert TYPEDEFS[name] == {field.encode_name: js_type(field.type) for field in fields}
