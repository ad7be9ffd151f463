"""Session and prompt of a request, for session affinity (sticky sessions) and prefix affinity.

Of JSON bodies only. Members are taken as they stand in the text, whatever their types: what they mean is the
replica's business, and here only whether two requests say the same matters. Sources:
platform.openai.com/docs/api-reference (``prompt_cache_key`` takes the place of ``user`` where requests are to
meet the same cache), docs.claude.com/en/api/messages (``metadata.user_id``), Triton's generate extension
(``text_input``).
"""

import re

import msgspec

from routing.contract.decode_errors import DECODE_ERRORS

_COOKIE = re.compile(rb"\r\ncookie:([^\r]*+)", re.I)
_NOTHING = msgspec.Raw()
_SAYS_NOTHING = (b"", b"null", b'""')


class _Metadata(msgspec.Struct):
    user_id: msgspec.Raw = _NOTHING


class _UserFields(msgspec.Struct):
    prompt_cache_key: msgspec.Raw = _NOTHING
    user: msgspec.Raw = _NOTHING
    safety_identifier: msgspec.Raw = _NOTHING
    metadata: msgspec.Raw = _NOTHING


class _PromptFields(msgspec.Struct):
    """In the order in which chat templates put them before the model, as far as there is one."""

    model: msgspec.Raw = _NOTHING
    tools: msgspec.Raw = _NOTHING
    system: msgspec.Raw = _NOTHING
    instructions: msgspec.Raw = _NOTHING
    messages: msgspec.Raw = _NOTHING
    prompt: msgspec.Raw = _NOTHING
    input: msgspec.Raw = _NOTHING
    text_input: msgspec.Raw = _NOTHING


_decode_user = msgspec.json.Decoder(_UserFields).decode
_decode_metadata = msgspec.json.Decoder(_Metadata).decode
_decode_prompt = msgspec.json.Decoder(_PromptFields).decode


def field(fields: bytes, name: bytes) -> bytes:
    """The value of a field of the head (each preceded by CRLF), empty where there is none. ``name``: in lower
    case."""
    at = fields.lower().find(b"\r\n%b:" % name)
    return fields[at + len(name) + 3 :].partition(b"\r")[0].strip() if at >= 0 else b""


def cookie(fields: bytes, name: bytes) -> bytes:
    """Likewise of a cookie, whose name's case counts."""
    for sent in _COOKIE.findall(fields):
        for pair in sent.split(b";"):
            known, _, value = pair.strip().partition(b"=")
            if known == name:
                return bytes(value)
    return b""


def user(body: bytes) -> bytes:
    """What a complete body says of who asks, as it stands there; empty: nothing."""
    try:
        said = _decode_user(body)
        for value in (said.prompt_cache_key, said.user, said.safety_identifier):
            if bytes(value) not in _SAYS_NOTHING:
                return bytes(value)
        named = bytes(_decode_metadata(said.metadata).user_id) if bytes(said.metadata) else b""
    except DECODE_ERRORS:
        return b""
    return b"" if named in _SAYS_NOTHING else named


def prompt(body: bytes) -> bytes:
    """What the model is to read, as it stands in a complete body, with the model's name before it: what was
    made of a prompt for one adapter is of no use to another. Empty: there is none."""
    try:
        said = _decode_prompt(body)
    except DECODE_ERRORS:
        return b""
    parts = (said.tools, said.system, said.instructions, said.messages, said.prompt, said.input)
    text = b"".join((*map(bytes, parts), bytes(said.text_input)))
    return bytes(said.model) + text if text else b""
