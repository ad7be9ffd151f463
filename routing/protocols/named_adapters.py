"""LoRA adapters that a JSON body names beside its model: ``lora_path`` (SGLang), ``adapter_id`` and
``merged_adapters`` (LoRAX, TGI), which stand among the body's members or in ``parameters``."""

from collections.abc import Callable, Sequence

import msgspec

ObjectMembers = Sequence[tuple[str, msgspec.Raw]]
"""An object's members, undecoded; two of the same name are two."""

HINTS = (b"lora_path", b"adapter_id", b"merged_adapters")
"""Without any of these, and without escaped letters, a body names no adapter."""
_NAMES = frozenset(("lora_path", "adapter_id"))
_decode = msgspec.json.Decoder().decode


def among(members: ObjectMembers, read: Callable[[msgspec.Raw], ObjectMembers]) -> list[str]:
    """All names of adapters. ``read``: the members of an object within. Raises as msgspec does."""
    found = _directly(members, read)
    for name, value in members:
        if name.casefold() == "parameters" and _is_object(value):
            found += _directly(read(value), read)
    return found


def _directly(members: ObjectMembers, read: Callable[[msgspec.Raw], ObjectMembers]) -> list[str]:
    found = []
    for name, value in members:
        lower = name.casefold()
        if lower in _NAMES:
            found += _texts(value)
        elif lower == "merged_adapters" and _is_object(value):
            found += [text for inner, ids in read(value) if inner.casefold() == "ids" for text in _texts(ids)]
    return found


def _is_object(value: msgspec.Raw) -> bool:
    return bytes(memoryview(value)[:1]) == b"{"


def _texts(value: msgspec.Raw) -> list[str]:
    """Of a batch each request has an adapter of its own, or none."""
    decoded = _decode(value)
    values = decoded if isinstance(decoded, list) else [decoded]
    return [one for one in values if isinstance(one, str) and one]
