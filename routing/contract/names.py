"""Names and slugs of fleets, replicas, hardware classes and devices, and the aliases of fleets."""

import re

SLUG_PATTERN = r"^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?\Z"
SLUG_RULE = (
    "use 1 to 63 lower-case letters, digits, dots, hyphens and underscores; "
    "begin and end with a letter or digit"
)
"""The pattern in words, for messages."""

DEVICE_PATTERN = r"^[a-z0-9]([a-z0-9._/-]{0,125}[a-z0-9])?\Z"
DEVICE_RULE = (
    "use 1 to 127 lower-case letters, digits, dots, hyphens, underscores and slashes; "
    "begin and end with a letter or digit"
)

MAX_ALIAS_LENGTH = 255
"""Also the longest ``served_model``."""

_SLUG = re.compile(SLUG_PATTERN)
_DEVICE = re.compile(DEVICE_PATTERN)


def is_slug(name: str) -> bool:
    """Whether this may name a fleet, replica or hardware class."""
    return _SLUG.match(name) is not None


def checked_slug(text: str) -> str:
    """The text, which may name a fleet, replica or hardware class. Raises ValueError in words where it may
    not."""
    if not is_slug(text):
        raise ValueError(f'"{text[:80]}" is not a valid name: {SLUG_RULE}')
    return text


def is_device_name(name: str) -> bool:
    """Whether this may name an accelerator, as ``node1/gpu0``."""
    return _DEVICE.match(name) is not None


def alias_problem(alias: str) -> str | None:
    """Why this cannot be an alias or a served model's name, in words; ``None`` when it can.

    These are free strings (``meta-llama/Llama-3.1-8B-Instruct``) that clients send in JSON, paths and
    headers, so they must not be empty, hold control characters, or begin or end with a space.
    """
    if not alias:
        return "must not be empty"
    if len(alias) > MAX_ALIAS_LENGTH:
        return f"is {len(alias)} characters long; at most {MAX_ALIAS_LENGTH} are allowed"
    if not alias.isprintable():
        return "holds a control character; remove it"
    if alias != alias.strip():
        return "begins or ends with a space; remove it"
    return None
