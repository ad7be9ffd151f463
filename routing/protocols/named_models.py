"""Names of models in a request: in its path, its query and its body, as any server may read them.

Used where a name decides what a client may use, so what can be read in two ways is refused
(:class:`routing.protocols.request_info.BadRequestBody`), and what cannot be read here is not taken for
harmless.
"""

import re
from collections.abc import Collection
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

import msgspec

from routing.contract.decode_errors import DECODE_ERRORS
from routing.protocols import named_adapters
from routing.protocols.long_strings import without_long_strings
from routing.protocols.object_scan import ObjectScan
from routing.protocols.open_inference_server import INDEX_PATH
from routing.protocols.path_forms import forms_of, path_of
from routing.protocols.request_info import BadRequestBody
from routing.protocols.strict_form import FormScan, check_charset, parameters

_IN_PATH = re.compile(
    rb"(?:(?:/openai|/api)?/v[0-9][a-z0-9]*/models|/predictions|/explanations|(?:/openai)?/v1/engines|/openai/deployments"
    rb"|/models)/(.+)",
    re.I | re.S,
)
"""KServe, TensorFlow Serving, TorchServe, the OpenAI API, that of Azure and Gemini's."""
_PATH_DECIDES = re.compile(
    rb"/v2/models/.+/(?:infer|infer_stream|generate|generate_stream|explain)|/v1/models/.+:[a-z]+"
    rb"|/(?:predictions|explanations)/.+"
)
"""Calls whose servers take the model from nowhere else; their bodies may be large tensors."""
_CONTENT_TYPE = re.compile(rb"\r\n[cC][oO][nN][tT][eE][nN][tT]-[tT][yY][pP][eE]:[ \t]*+([^\r]*+)")
_JSON = [b"application/json"]
_CONTENT = re.compile(
    rb"\r\n[cC][oO][nN][tT][eE][nN][tT]-(?:[tT][yY][pP][eE]|[eE][nN][^:]*+):[ \t]*+([^\r]*+)"
)
"""Type and encoding."""
_ESCAPED_LETTER = re.compile(rb"\\u00[4-7]")
"""What a letter of a member's name begins with, where it is escaped."""
_BLANKS = b" \t\r\n"
_FORM = b"application/x-www-form-urlencoded"
_MOST_MEMBERS = 1000
_LONGEST_USUAL = 8192
_MOST_KEPT, _LONGEST_KEPT = 1024, 256
"""How many targets are remembered, and up to which length."""
EVERY_MODEL = "*"
_OTHER_UNICODE = (b"\xef\xbb\xbf", b"\xfe\xff", b"\xff\xfe")


class _Member:
    """The name of one member of an object: two of the same name are two."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class _Members:
    """Decodes objects with all of their members, those of the same name included. Their values are left as
    they are."""

    def __init__(self) -> None:
        self._left = 0
        self._decode = msgspec.json.Decoder(dict[_Member, msgspec.Raw], dec_hook=self._member).decode

    def read(self, body: bytes | msgspec.Raw) -> list[tuple[str, msgspec.Raw]]:
        """Raises as msgspec does."""
        self._left = _MOST_MEMBERS
        return [(key.name, value) for key, value in self._decode(body).items()]

    def _member(self, _: type, name: object) -> _Member:
        if not self._left:
            raise ValueError(f"it has more than {_MOST_MEMBERS} members")
        self._left -= 1
        return _Member(str(name))


_MEMBERS = _Members()
_decode_distinct = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_name = msgspec.json.Decoder(str | None).decode


class NamedInBody(NamedTuple):
    """What a body says about models."""

    models: list[str]
    adapters: list[str]
    """Beside them (:mod:`routing.protocols.named_adapters`)."""


class NamedInTarget(NamedTuple):
    """What a request target says about models."""

    in_path: tuple[str, ...]
    """What stands in its path where models are named, in each of the path's forms; :data:`EVERY_MODEL` where
    it asks for the index of a server's models."""
    in_query: tuple[str, ...]
    path_decides: bool
    """Whether it is a call of the model in its path, whatever the body says."""


def in_target(target: bytes) -> NamedInTarget:
    """A model guard asks it of each request, and targets are few."""
    return _in_target(target) if len(target) <= _LONGEST_KEPT else _look(target)


def _look(target: bytes) -> NamedInTarget:
    forms = forms_of(path_of(target)) or ()
    rests = (rest_of_path(form) for form in forms)
    decides = bool(forms) and all(_PATH_DECIDES.fullmatch(form) is not None for form in forms)
    return NamedInTarget(tuple(rest for rest in rests if rest is not None), tuple(in_query(target)), decides)


_in_target = lru_cache(_MOST_KEPT)(_look)


def rest_of_path(form: bytes) -> str | None:
    """What stands in a path where models are named: a name, and perhaps more (``/infer``, ``:predict``);
    ``None``: the path, in one of its forms, names no model."""
    if form == INDEX_PATH:
        return EVERY_MODEL
    matched = _IN_PATH.fullmatch(form)
    return None if matched is None else unquote_to_bytes(matched[1]).decode("utf-8", "replace")


def begins_with_one(rest: str, names: Collection[str]) -> bool:
    """Whether what :func:`rest_of_path` returned names one of these models."""
    return any(rest.startswith(name) and rest[len(name) : len(name) + 1] in ("", "/", ":") for name in names)


def in_query(target: bytes) -> list[str]:
    """The values of all parameters called ``model``, however they are encoded."""
    query = target.partition(b"?")[2]
    if not query:
        return []
    pairs = (pair.replace(b"+", b" ").partition(b"=") for pair in re.split(rb"[&;]", query))
    return [_text(value) for name, _, value in pairs if _text(name).casefold() == "model"]


def _text(encoded: bytes) -> str:
    return unquote_to_bytes(encoded).decode("utf-8", "replace")


def scan_of_form(fields: bytes) -> FormScan | None:
    """Reads a form that comes in pieces; ``None``: the body is no form. Raises :class:`BadRequestBody`."""
    return _scan_of_form(*_content_type(fields))


def _scan_of_form(kind: bytes, rest: bytes) -> FormScan | None:
    if not kind.startswith(b"multipart/"):
        return None
    given = parameters(rest)
    check_charset(given)
    return FormScan(given)


def is_named_once(fields: bytes, body: bytes) -> bool:
    """Whether the model that was read from a JSON object is certainly the only one that its body names:
    ``model`` stands there once, and no member that names adapters. ``False``: ask :func:`in_body`, which
    costs several times as much."""
    if len(body) > _LONGEST_USUAL or _CONTENT.findall(fields) != _JSON:
        return False
    lower = body.lower()
    return (
        lower.count(b'"model"') == 1
        and not any(map(lower.count, named_adapters.HINTS))
        and _ESCAPED_LETTER.search(body) is None
    )


def scan_of_body(fields: bytes, *, any_content: bool) -> FormScan | ObjectScan | None:
    """Reads a body that comes in pieces, without keeping it; ``None``: it can only be read as a whole. Raises
    :class:`BadRequestBody`. ``any_content``: as for :func:`in_body`."""
    kind, rest = _content_type(fields)
    scan = _scan_of_form(kind, rest)
    if scan is not None:
        return scan
    _check_charset_of(kind, rest)
    return None if kind == _FORM else ObjectScan(any_content=any_content and b"json" not in kind)


def in_body(fields: bytes, body: bytes, *, any_content: bool) -> NamedInBody:
    """All names of models and adapters in a body. ``fields``: of its head, each preceded by CRLF.
    ``any_content``: whether it may be something else than a JSON object or a form. Raises
    :class:`BadRequestBody`."""
    kind, rest = _content_type(fields)
    scan = _scan_of_form(kind, rest)
    if scan is not None:
        names = scan.feed(body)
        scan.finish()
        return NamedInBody(names, [])
    _check_charset_of(kind, rest)
    if b"\0" in body[:4] or body.startswith(_OTHER_UNICODE):
        # Some servers read JSON whatever it is called, and find out for themselves how it is encoded.
        raise BadRequestBody("the body is not in UTF-8, or begins with a byte order mark")
    named = in_query(b"?" + body.strip(_BLANKS)) if kind == _FORM else []
    first = body.lstrip(_BLANKS)[:1]
    if first == b"{":
        in_object = _in_object(body)
        return NamedInBody(named + in_object.models, in_object.adapters)
    if kind == _FORM and first and not b"!" <= first <= b"~":
        raise BadRequestBody("the form begins with a character that is none of a form's")
    if kind == _FORM or not body:
        return NamedInBody(named, [])
    if not any_content or b"json" in kind:
        raise BadRequestBody("the body must be a JSON object or a form")
    return NamedInBody(named, [])


def _content_type(fields: bytes) -> tuple[bytes, bytes]:
    """The type in lower case, and its parameters with the semicolon before them."""
    types = _CONTENT_TYPE.findall(fields)
    if types == _JSON:
        return _JSON[0], b""
    if len(types) > 1:
        raise BadRequestBody("the request has more than one Content-Type")
    kind, semicolon, rest = (types[0] if types else b"").partition(b";")
    return kind.strip().lower(), semicolon + rest


def _check_charset_of(kind: bytes, rest: bytes) -> None:
    if rest and (kind == _FORM or b"json" in kind or b"charset" in rest.lower()):
        check_charset(parameters(rest))


def _in_object(body: bytes) -> NamedInBody:
    try:
        members = _usual_members(body)
        if members is None:
            members = _MEMBERS.read(without_long_strings(body))
        # Some servers compare names without regard to case.
        models = [_decode_name(value) for name, value in members if name.casefold() == "model"]
        adapters = named_adapters.among(members, _MEMBERS.read)
    except DECODE_ERRORS as error:
        raise BadRequestBody(
            f"the body must be a JSON object whose member model is a string: {error}"
        ) from None
    if len(models) > 1:
        raise BadRequestBody("the body has more than one member model")
    return NamedInBody([name for name in models if name], adapters)


def _usual_members(body: bytes) -> list[tuple[str, msgspec.Raw]] | None:
    """The same, several times as fast, of a body as most clients write it: without blanks between its
    members, and none of their names escaped. Such a one is the same after it was decoded and encoded, unless
    a name stands there twice. ``None``: not such a body."""
    if len(body) > _LONGEST_USUAL:
        return None
    members = _decode_distinct(body)
    return list(members.items()) if msgspec.json.encode(members) == body else None
