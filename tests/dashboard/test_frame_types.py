"""Frame types: the pages' JSDoc in ``frames.js`` says of each message what the server's structs say."""

import json
import re

import msgspec
import pytest

from controlplane.alerts.live_counts import FiringCount
from controlplane.telemetry import frames
from dashboard import initial_message
from tests.dashboard.jsdoc import JS, js_type, structs_of, typedefs

RAW = {"history": "Point[]", "frame": "any"}
"""Fields of the initial message that are passed on as they lie in Redis, and what is in them."""
TYPEDEFS = typedefs("frames.js")


def _structs() -> dict[str, type[msgspec.Struct]]:
    """All that a page may be sent, by name."""
    told = (initial_message.Sparkline, initial_message.InitialMessage)
    return structs_of(frames) | {one.__name__: one for one in told}


def _fields(struct: type[msgspec.Struct]) -> dict[str, str]:
    told = {
        field.encode_name: RAW[field.name] if field.type is msgspec.Raw else js_type(field.type)
        for field in msgspec.structs.fields(struct)
    }
    config = struct.__struct_config__
    return {config.tag_field: f'"{config.tag}"', **told} if config.tag_field else told


def test_every_struct_has_its_typedef_and_no_other_is_there() -> None:
    assert sorted(TYPEDEFS) == sorted(_structs())


@pytest.mark.parametrize("name", sorted(_structs()))
def test_a_typedef_has_the_fields_of_its_struct(name: str) -> None:
    struct = _structs()[name]
    typedef = TYPEDEFS[name]
    assert {field.removesuffix("?"): kind for field, kind in typedef.items()} == _fields(struct)
    # An older server may not have sent it, and the struct has a default for that.
    optional = {field.removesuffix("?") for field in typedef if field.endswith("?")}
    assert optional <= {field.encode_name for field in msgspec.structs.fields(struct) if not field.required}


def test_the_feed_knows_each_kind_of_message() -> None:
    read = set(re.findall(r'message\.type === "(\w+)"', (JS / "live/feed.js").read_text()))
    sent = [
        initial_message.frame_message("{}"),
        initial_message.silence_message(True),
        initial_message.alerts_message(FiringCount()),
    ]
    tag = initial_message.InitialMessage.__struct_config__.tag
    assert read == {tag, *(json.loads(one)["type"] for one in sent)}
