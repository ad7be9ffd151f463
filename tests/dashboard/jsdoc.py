"""JSDoc types of the pages, and Python's types as JSDoc writes them."""

import re
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec

JS = Path(__file__).parents[2] / "dashboard/static/dashboard/js"
PLAIN = {str: "string", int: "number", float: "number", bool: "boolean", NoneType: "null"}


def typedefs(file: str) -> dict[str, dict[str, str]]:
    """Typedef → field → type, out of one file; those of the type that it extends come first.

    A field may be optional, ``name?``. A name for a set of words is replaced by the words.
    """
    text = re.sub(r"\s*\n \*\s*", " ", (JS / file).read_text())
    words = {name: kind for kind, name in re.findall(r'@typedef \{("[^{}]*")\} (\w+)', text)}
    found: dict[str, dict[str, str]] = {}
    for base, body, name in re.findall(r"@typedef \{(?:(\w+) & )?\{(.*?)\}\} (\w+)", text):
        own = re.findall(r"(\w+\??): ((?:<[^>]*>|[^,<])+)", body)
        found[name] = found.get(base, {}) | {field: words.get(kind, kind) for field, kind in own}
    return found


def js_type(kind: Any) -> str:
    """A Python type as JSDoc writes it: ``list[float | None]`` → ``(number | null)[]``."""
    if get_origin(kind) in (Union, UnionType):
        return " | ".join(js_type(one) for one in get_args(kind))
    if get_origin(kind) is Literal:
        return " | ".join(f'"{one}"' for one in get_args(kind))
    if get_origin(kind) is list:
        (of,) = get_args(kind)
        return f"({js_type(of)})[]" if " | " in js_type(of) else f"{js_type(of)}[]"
    if get_origin(kind) is dict:
        return f"Record<{', '.join(js_type(one) for one in get_args(kind))}>"
    return PLAIN.get(kind) or str(kind.__name__)


def structs_of(module: object) -> dict[str, type[msgspec.Struct]]:
    """Those that a module holds, by name."""
    return {
        one.__name__: one
        for one in vars(module).values()
        if isinstance(one, type) and issubclass(one, msgspec.Struct)
    }
