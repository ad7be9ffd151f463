"""The grammar of RFC 9110 §5 and RFC 9112 §2-5, as compiled patterns, and what is done with its elements.

Each pattern reads its input once, so no input makes matching slow. For that, quantifiers of single characters
are possessive, and the first character after a group decides whether the group goes on. Quantifiers of groups
are not possessive, because Python before 3.11.5 misreads them (gh-106052).
"""

import re
from collections.abc import Set
from typing import Final

TOKEN: Final = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]"
PLAIN_TOKEN: Final = rb"[!#$%&'*+\-.^`|~0-9A-Za-z]"
"""A token without ``_``: names with an underscore take the careful path, where they are dropped."""
TEXT: Final = rb"[\t\x20-\x7e\x80-\xff]"
"""What a field value may hold: visible characters, SP, HTAB and obs-text."""

LINE_END: Final = b"\r\n"
HEAD_END: Final = b"\r\n\r\n"

FIELD_LINE: Final = re.compile(rb"(" + TOKEN + rb"++):[ \t]*+(" + TEXT + rb"*+)\Z")
HOST: Final = re.compile(
    rb"(?:[A-Za-z0-9._~!$&'()*,;=\-]++|(?:%[0-9A-Fa-f]{2})+)+(?::[0-9]{0,5}+)?\Z"
    rb"|\[[0-9A-Fa-f:.]++\](?::[0-9]{0,5}+)?\Z"
)
"""``uri-host [ ":" port ]`` of RFC 9110 §7.2, not empty."""
LENGTH: Final = re.compile(rb"[0-9]{1,18}+\Z")
"""A Content-Length: digits alone, and few enough for any 64-bit reader."""
BARE_LINE_FEED: Final = re.compile(rb"(?<!\r)\n")


def members(value: bytes) -> list[bytes]:
    """Elements of a comma-separated list in lower case, empty ones left out (RFC 9110 §5.6.1.2)."""
    return [member for part in value.lower().split(b",") if (member := part.strip(b" \t"))]


def without_fields(fields: bytes, names: Set[bytes]) -> bytes:
    """``fields``, each preceded by CRLF, less every one with one of these lower-case names."""
    lines = fields.split(b"\r\n")[1:]
    return b"".join([b"\r\n" + line for line in lines if line.partition(b":")[0].lower() not in names])
