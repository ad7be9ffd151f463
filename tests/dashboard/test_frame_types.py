"""Frame types: the pages' JSDoc in ``frames.js`` says of each message what the server's structs say."""

import json
import re
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

import msgspec
import pytest

from controlplane.telemetry import frames
from dashboard import initial_message

JS = Path(__file__).parents[2] / "dashboard/static/dashboard/js"
RAW = {"history": "Point[]", "frame": "any"}
"""Fields of the initial message that are passed on as they lie in Redis, and what is in them."""
PLAIN = {str: "string", int: "number", float: "number", bool: "boolean", NoneType: "null"}


def _structs() -> dict[str, type[msgspec.Struct]]:
    """All that a page may be sent, by name."""
    structs: list[type[msgspec.Struct]] = [
        one for one in vars(frames).values() if isinstance(one, type) and issubclass(one, msgspec.Struct)
    ]
    structs += [initial_message.Sparkline, initial_message.InitialMessage]
    return {one.__name__: one for one in structs}


def _js(kind: Any) -> str:
    """A Python type as JSDoc writes it: ``list[float | None]`` → ``(number | null)[]``."""
    if get_origin(kind) in (Union, UnionType):
        return " | ".join(_js(one) for one in get_args(kind))
    if get_origin(kind) is list:
        (of,) = get_args(kind)
        return f"({_js(of)})[]" if " | " in _js(of) else f"{_js(of)}[]"
    if get_origin(kind) is dict:
        return f"Record<{', '.join(_js(one) for one in get_args(kind))}>"
    return PLAIN.get(kind) or str(kind.__name__)


def _fields(struct: type[msgspec.Struct]) -> dict[str, str]:
    told = {
        field.encode_name: RAW[field.name] if field.type is msgspec.Raw else _js(field.type)
        for field in msgspec.structs.fields(struct)
    }
    config = struct.__struct_config__
    return {config.tag_field: f'"{config.tag}"', **told} if config.tag_field else told


def _typedefs() -> dict[str, dict[str, str]]:
    """Typedef → field → type, out of ``frames.js``. A field may be optional, ``name?``."""
    text = re.sub(r"\s*\n \*\s*", " ", (JS / "frames.js").read_text())
    found = re.findall(r"@typedef \{\{(.*?)\}\} (\w+)", text)
    return {name: dict(re.findall(r"(\w+\??): ((?:<[^>]*>|[^,<])+)", body)) for body, name in found}


def test_every_struct_has_its_typedef_and_no_other_is_there() -> None:
    assert sorted(_typedefs()) == sorted(_structs())


@pytest.mark.parametrize("name", sorted(_structs()))
def test_a_typedef_has_the_fields_of_its_struct(name: str) -> None:
    struct = _structs()[name]
    typedef = _typedefs()[name]
    assert {field.removesuffix("?"): kind for field, kind in typedef.items()} == _fields(struct)
    # An older server may not have sent it, and the struct has a default for that.
    optional = {field.removesuffix("?") for field in typedef if field.endswith("?")}
    assert optional <= {field.encode_name for field in msgspec.structs.fields(struct) if not field.required}


def test_the_feed_knows_each_kind_of_message() -> None:
    read = set(re.findall(r'message\.type === "(\w+)"', (JS / "live/feed.js").read_text()))
    sent = [initial_message.frame_message("{}"), initial_message.silence_message(True)]
    tag = initial_message.InitialMessage.__struct_config__.tag
    assert read == {tag, *(json.loads(one)["type"] for one in sent)}
