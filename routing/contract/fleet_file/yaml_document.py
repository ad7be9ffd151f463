"""YAML document of a fleet file: plain values, and the line and column of everything in it.

Values follow YAML 1.2's core schema, which has JSON's types: only ``true`` and ``false`` are booleans,
and ``yes``, ``010``, ``1:30`` and ``2026-01-01`` are text. Merge keys and tags are errors. Aliases
share whole values, within a limit on what they expand to. Pure: no I/O.
"""

import gc
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import yaml

from routing.contract.field_rules import MOST_PROBLEMS

MAX_CHARACTERS = 8 * 1024 * 1024
MAX_DEPTH = 32
MAX_VALUES = 1_000_000
"""Values and names of fields in one file. A replica with all its fields has about 30, of half a KiB each."""
_LONGEST_NAME = 1024
"""Of a field. YAML has the same limit for names that stand before their colon."""
_MOST_EXPLAINED = 65_536
"""Characters of a text whose syntax errors PyYAML's own parser explains: it reads that in half a second."""
MAX_ALIASED_VALUES = 100_000
"""Values that aliases may add to those written out: a small file must not become a large one."""

_TOO_DEEP = f"values are nested more than {MAX_DEPTH} deep: is a bracket not closed?"
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE = frozenset({"true", "True", "TRUE"})
_FALSE = frozenset({"false", "False", "FALSE"})
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]{0,17})\Z")
NUMBER = re.compile(
    r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z|[-+]?\.(inf|Inf|INF)\Z|\.(nan|NaN|NAN)\Z"
)

_CURES = {
    "cannot start any token": "indent with spaces, not tabs; quote a value that begins with @, ` or %",
    "mapping values are not allowed": 'is a line indented wrongly, or does a value hold ": " without quotes?',
    "could not find expected ':'": "write name: value, with a space after the colon",
    "expected <block end>": "lines that belong together must be indented alike",
    "expected ',' or": "is a bracket, brace or comma missing?",
    "did not find expected key": "lines that belong together must be indented alike",
    "did not find expected '-' indicator": "lines that belong together must be indented alike",
    "did not find expected node content": "is a bracket, brace or quote not closed?",
    "but found '<stream end>'": "is a bracket, brace or quote not closed?",
    "found undefined alias": "define it with & before it is used with *",
    "but found another document": "write one document, without a second ---",
    "while scanning a quoted scalar": "is a closing quote missing?",
}


class Position(NamedTuple):
    """Line and column, both counted from 1."""

    line: int
    column: int


class Flaw(NamedTuple):
    """Something wrong with the YAML itself."""

    place: Position
    pointer: str
    message: str


class Document:
    """One parsed document: its plain value, what is wrong with it, and where each part stands."""

    def __init__(self, root: yaml.Node | None, content: Any, flaws: list[Flaw]) -> None:
        self._root = root
        self.content = content
        self.flaws = flaws
        self.unreadable = content is None and bool(flaws)
        self._fields: dict[int, dict[str, tuple[yaml.Node, yaml.Node]]] = {}
        """Of the groups in which a place was looked for, by ``id`` of their nodes."""

    def position_of(self, pointer: str, *, at_key: bool = False) -> Position:
        """Where the value (or the name) that a JSON pointer leads to stands; else its nearest parent."""
        node = self._root
        place = _position(node.start_mark) if node is not None else Position(1, 1)
        for part in pointer.split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            if isinstance(node, yaml.MappingNode):
                pair = self._fields_of(node).get(key)
                if pair is None:
                    return place
                key_place, node = _position(pair[0].start_mark), pair[1]
                # An empty value has no place of its own that a person would look at.
                place = key_place if at_key or _is_empty(node) else _position(node.start_mark)
            elif isinstance(node, yaml.SequenceNode) and int(key) < len(node.value):
                node = node.value[int(key)]
                place = _position(node.start_mark)
            else:
                return place
        return place

    def _fields_of(self, node: yaml.MappingNode) -> dict[str, tuple[yaml.Node, yaml.Node]]:
        fields = self._fields.get(id(node))
        if fields is None:
            # The first of several with one name.
            named = [pair for pair in reversed(node.value) if isinstance(pair[0], yaml.ScalarNode)]
            fields = self._fields[id(node)] = {pair[0].value: pair for pair in named}
        return fields


def read(text: str) -> Document:
    """Parse one YAML document. Never raises: what is wrong is in ``flaws``."""
    if len(text) > MAX_CHARACTERS:
        message = f"the file is {len(text)} characters long; at most {MAX_CHARACTERS} are read"
        return Document(None, None, [Flaw(Position(1, 1), "", message)])
    with _gc_paused():
        return _document(text)


def _document(text: str) -> Document:
    try:
        flaw = _too_much(text)
        if flaw is not None:
            return Document(None, None, [flaw])
        root = _node_graph(text)
    except (yaml.YAMLError, UnicodeError) as error:
        return Document(None, None, [_syntax_flaw(error, text)])
    if root is None or (_is_plain(root) and scalar(root.value) is None):
        flaw = Flaw(Position(1, 1), "", "the file is empty: write at least fleets: []")
        return Document(None, None, [flaw])
    conversion = _Conversion()
    try:
        content = conversion.plain(root, "", aliased=False)
    except _EnoughFlaws:
        return Document(root, None, conversion.flaws)
    except _FatalFlaw as stop:
        return Document(root, None, [stop.flaw])
    return Document(root, content, conversion.flaws)


class _TextLoader(yaml.SafeLoader):
    """Leaves every scalar as text, so that only this module decides what is a number."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}


def _fast_loader() -> Any:
    """The same on libyaml, ten times as fast; None where PyYAML came without it."""
    base = getattr(yaml, "CSafeLoader", None)
    return type("_FastTextLoader", (base,), {"yaml_implicit_resolvers": {}}) if base else None


_FastTextLoader = _fast_loader()


def _with_loader(work: Callable[[Any], Any], length: int) -> Any:
    """Try libyaml; on an error let PyYAML's own parser, which explains itself better, have its say, unless
    the text is so long that it would take seconds. ``work`` gets a loader; ``length``: of its text."""
    if _FastTextLoader is not None:
        try:
            return work(_FastTextLoader)
        except (yaml.YAMLError, UnicodeError):
            if length > _MOST_EXPLAINED:
                raise
    return work(_TextLoader)


def _node_graph(text: str) -> yaml.Node | None:
    node: yaml.Node | None = _with_loader(lambda loader: yaml.compose(text, Loader=loader), len(text))
    return node


@contextmanager
def _gc_paused() -> Iterator[None]:
    """Each of a million nodes that stay makes the garbage collector look at all before it: seven of eight
    seconds were that. No node is in a cycle, so there is nothing to collect."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _too_much(text: str) -> Flaw | None:
    """Composing recurses and keeps every value, so both are limited on the flat stream of events first."""

    def scan(loader: Any) -> Flaw | None:
        depth = values = 0
        for event in yaml.parse(text, Loader=loader):
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
                if depth > MAX_DEPTH:
                    return Flaw(_position(event.start_mark), "", _TOO_DEEP)
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
                continue
            values += 1
            if values > MAX_VALUES:
                message = f"the file has more than {MAX_VALUES} values, the most that are read: divide it"
                return Flaw(_position(event.start_mark), "", message)
        return None

    flaw: Flaw | None = _with_loader(scan, len(text))
    return flaw


class _FatalFlaw(Exception):
    """Nothing more can be read after this flaw."""

    def __init__(self, flaw: Flaw) -> None:
        super().__init__(flaw.message)
        self.flaw = flaw


class _EnoughFlaws(Exception):
    """As many as are reported have been found."""


class _Conversion:
    """One walk from nodes to plain values."""

    def __init__(self) -> None:
        self.flaws: list[Flaw] = []
        self._seen: set[int] = set()
        self._open: set[int] = set()
        self._aliased = 0

    def plain(self, node: yaml.Node, pointer: str, *, aliased: bool) -> Any:
        """The value of a node. ``aliased``: it stands inside something reached through an alias."""
        identity = id(node)
        aliased = aliased or identity in self._seen
        if aliased:
            self._aliased += 1
            if self._aliased > MAX_ALIASED_VALUES:
                message = f"aliases expand to more than {MAX_ALIASED_VALUES} values: write fewer of them"
                raise _FatalFlaw(Flaw(_position(node.start_mark), pointer, message))
        if identity in self._open or len(self._open) > MAX_DEPTH:
            itself = identity in self._open
            message = "an alias leads back into itself: write the value out" if itself else _TOO_DEEP
            raise _FatalFlaw(Flaw(_position(node.start_mark), pointer, message))
        self._seen.add(identity)
        self._open.add(identity)
        try:
            return self._value(node, pointer, aliased)
        finally:
            self._open.discard(identity)

    def _value(self, node: yaml.Node, pointer: str, aliased: bool) -> Any:
        if not node.tag.startswith("tag:yaml.org,2002:") or not node.tag.endswith((":str", ":seq", ":map")):
            shown = node.tag.replace("tag:yaml.org,2002:", "!!")
            self._flaw(node, pointer, f"the tag {shown} is not supported: remove it")
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, pointer, aliased)
        if isinstance(node, yaml.SequenceNode):
            items = enumerate(node.value)
            return [self.plain(item, f"{pointer}/{index}", aliased=aliased) for index, item in items]
        return scalar(node.value) if _is_plain(node) else node.value

    def _mapping(self, node: yaml.MappingNode, pointer: str, aliased: bool) -> dict[str, Any]:
        result: dict[str, Any] = {}
        first: dict[str, int] = {}
        for key_node, value_node in node.value:
            key = key_node.value
            if not isinstance(key_node, yaml.ScalarNode):
                self._flaw(key_node, pointer, "a field's name must be a word, not a list or group")
            elif len(key) > _LONGEST_NAME:
                self._flaw(key_node, pointer, f"a field's name has at most {_LONGEST_NAME} characters")
            elif key == "<<" and _is_plain(key_node):
                message = "merge keys (<<) are not supported: write the fields out, or alias a whole value"
                self._flaw(key_node, pointer, message)
            elif key in first:
                self._flaw(key_node, pointer, f'"{key}" is written twice, first on line {first[key]}')
            else:
                first[key] = _position(key_node.start_mark).line
                inside = f"{pointer}/{key.replace('~', '~0').replace('/', '~1')}"
                result[key] = self.plain(value_node, inside, aliased=aliased)
        return result

    def _flaw(self, node: yaml.Node, pointer: str, message: str) -> None:
        self.flaws.append(Flaw(_position(node.start_mark), pointer, message))
        if len(self.flaws) >= MOST_PROBLEMS:
            raise _EnoughFlaws


def scalar(text: str) -> bool | int | float | str | None:
    """What an unquoted word means in YAML 1.2's core schema (decimal numbers only)."""
    if text in _NULLS:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if _INTEGER.match(text):
        return int(text)
    if NUMBER.match(text):
        special = text[-1] in "fFnN"  # .inf and .nan
        return float(text.replace(".", "", 1) if special else text)
    return text


class _Writer(yaml.SafeDumper):
    """Quotes whatever :func:`scalar` would take for a number, besides what PyYAML quotes."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_Writer.add_implicit_resolver("tag:yaml.org,2002:float", NUMBER, list("-+.0123456789"))


def write(content: Mapping[str, Any]) -> str:
    """YAML that :func:`read` gives back unchanged; innermost lists and groups on one line."""
    text: str = yaml.dump(
        dict(content), Dumper=_Writer, sort_keys=False, allow_unicode=True, width=110, default_flow_style=None
    )
    return text


class _Mark(Protocol):
    line: int
    column: int


def _position(mark: _Mark | None) -> Position:
    return Position(mark.line + 1, mark.column + 1) if mark is not None else Position(1, 1)


def _is_plain(node: yaml.Node) -> bool:
    """Written without quotes. The two parsers mark that by ``None`` and by an empty text."""
    return isinstance(node, yaml.ScalarNode) and not node.style


def _is_empty(node: yaml.Node) -> bool:
    return _is_plain(node) and node.value == ""


def _syntax_flaw(error: yaml.YAMLError | UnicodeError, text: str) -> Flaw:
    # libyaml counts bytes, and names them where they are no characters.
    forbidden = yaml.reader.Reader.NON_PRINTABLE.search(text)
    if forbidden is not None and not isinstance(error, yaml.MarkedYAMLError):
        at = forbidden.start()
        place = Position(text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at))
        return Flaw(place, "", f"the character U+{ord(forbidden[0]):04X} is not allowed: remove it")
    if not isinstance(error, yaml.MarkedYAMLError):
        return Flaw(Position(1, 1), "", f"not valid YAML: {error}")
    mark = error.problem_mark or error.context_mark
    said = " ".join(part for part in (error.context, error.problem) if part)
    cure = next(
        (cure for words, cure in _CURES.items() if words in said), "check this line and the one above"
    )
    return Flaw(_position(mark), "", f"not valid YAML, {said}: {cure}")
