"""An nginx configuration as a tree of directives, with the files that it includes, within limits.

Files are read one by one, so that all of them together have a limit; which ones an ``include`` means is found
out here. What stands more than once, because a file is included more than once, counts as often.
"""

import glob
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import crossplane
from crossplane.analyzer import CONTEXTS, enter_block_ctx
from crossplane.errors import NgxParserBaseException, NgxParserDirectiveArgumentsError
from crossplane.lexer import lex

from controlplane.importing.model import Draft, NotImportable, SourceLocation
from routing.contract import input_file
from routing.contract.input_file import InputRefused

MAX_BYTES = 4 * 1024 * 1024
"""Of all files together. To read one MiB takes a second."""
MAX_FILES = 1000
MAX_DIRECTIVES = 200_000
MAX_DEPTH = 50
"""Blocks, and includes, one in another."""

_TOO_DEEP = "blocks are nested too deeply"


class Directive(NamedTuple):
    """``name args;`` or ``name args { block }``."""

    name: str
    args: tuple[str, ...]
    place: SourceLocation
    block: tuple["Directive", ...] | None

    def __str__(self) -> str:
        return " ".join([self.name, *self.args])


class _File(NamedTuple):
    """One file, parsed. Its ``include`` statements have ``includes``: the names of the files meant."""

    name: str
    statements: list[dict[str, Any]]
    errors: list[Exception]


def read(path: Path, draft: Draft) -> list[Directive]:
    """The directives of a file and of what it includes; what cannot be read of them is noted as dropped.

    Raises NotImportable in one sentence when the file cannot be read, is no nginx configuration, or there is
    more than is read.
    """
    reading = _NginxFileReader(path, draft)
    reading.all()
    return list(reading.directives(str(path), (str(path),), 0))


class _NginxFileReader:
    """One configuration. Relative names start at the main file's folder, as in nginx."""

    def __init__(self, path: Path, draft: Draft) -> None:
        self._path = path
        self._draft = draft
        self._files: dict[str, _File] = {}
        self._waiting: list[tuple[str, tuple[str, ...]]] = []
        """Names and contexts of the files that are still to be read."""
        self._known: set[str] = set()
        self._bytes = 0
        self._statements = 0

    def all(self) -> None:
        try:
            self._take(str(self._path), ())
        except OSError as error:
            raise NotImportable(f"{self._path}: {error.strerror}") from None
        for name, context in self._waiting:  # grows meanwhile
            self._parse(name, context)
        for file in self._files.values():
            _check_ends(file.name, self._path)
        for file in self._files.values():
            for found in file.errors:
                self._note(file.name, found)

    def _take(self, name: str, context: tuple[str, ...]) -> None:
        """Have a file parsed, once. Raises OSError."""
        if name in self._known:
            return
        if len(self._known) == MAX_FILES:
            raise self._too_much(f"more than {MAX_FILES} files are included")
        try:
            data = input_file.read(name, MAX_BYTES - self._bytes)
        except InputRefused as error:
            if os.path.isfile(name):
                limit = input_file.shown_limit(MAX_BYTES)
                raise self._too_much(f"all files together have more than {limit}") from error
            raise
        if b"\0" in data:
            raise NotImportable(f"{name}: is not an nginx configuration: it holds zero bytes")
        self._bytes += len(data)
        self._known.add(name)
        self._waiting.append((name, context))

    def _parse(self, name: str, context: tuple[str, ...]) -> None:
        # In a context that it does not know, the parser checks no arguments.
        payload = crossplane.parse(
            name, onerror=lambda error: error, single=True, check_ctx=False, check_args=context in CONTEXTS
        )
        errors = [found["callback"] for found in payload["errors"]]
        statements = payload["config"][0]["parsed"]
        self._files[name] = _File(name, statements, errors)
        self._follow(name, statements, context, 0)

    def _follow(
        self, name: str, statements: list[dict[str, Any]], context: tuple[str, ...], depth: int
    ) -> None:
        """Find out what the file's ``include`` statements mean."""
        if depth > MAX_DEPTH:
            raise _refused(
                SourceLocation(name, statements[0]["line"] if statements else 0), _TOO_DEEP, self._path
            )
        for statement in statements:
            if statement["directive"] == "include" and statement["args"]:
                place = SourceLocation(name, statement["line"])
                statement["includes"] = self._included(statement["args"][0], context, place)
            elif "block" in statement:
                self._follow(name, statement["block"], enter_block_ctx(statement, context), depth + 1)

    def _included(self, pattern: str, context: tuple[str, ...], place: SourceLocation) -> list[str]:
        """The files that can be read. Any other is noted as dropped."""
        whole = os.path.join(self._path.parent, pattern)
        names = [whole]
        if glob.has_magic(whole):
            names = sorted(islice(glob.iglob(whole), MAX_FILES + 1))
            if not names:
                self._draft.note_dropped(place, f"include {pattern}", "no file matches it")
        readable = []
        for name in names:
            try:
                self._take(name, context)
            except (OSError, ValueError) as error:
                words = error.strerror if isinstance(error, OSError) else str(error)
                self._draft.note_dropped(place, f"include {name}", f"the file cannot be read: {words}")
            else:
                readable.append(name)
        return readable

    def directives(self, name: str, within: tuple[str, ...], depth: int) -> Iterator[Directive]:
        """Of one file, with includes put in where they stand. ``within``: the files around it."""
        yield from self._directives(self._files[name].statements, within, depth)

    def _directives(
        self, statements: list[dict[str, Any]], within: tuple[str, ...], depth: int
    ) -> Iterator[Directive]:
        for statement in statements:
            place = SourceLocation(within[-1], statement["line"])
            self._statements += 1
            if self._statements > MAX_DIRECTIVES:
                raise self._too_much(f"there are more than {MAX_DIRECTIVES} directives")
            if "includes" in statement:
                yield from self._put_in(statement, within, depth, place)
                continue
            block = statement.get("block")
            inner = None if block is None else tuple(self._directives(block, within, depth + 1))
            yield Directive(statement["directive"], tuple(statement["args"]), place, inner)

    def _put_in(
        self, statement: dict[str, Any], within: tuple[str, ...], depth: int, place: SourceLocation
    ) -> Iterator[Directive]:
        pattern = statement["args"][0]
        for name in statement["includes"]:
            if name in within:
                self._draft.note_dropped(place, f"include {pattern}", "it includes itself")
            elif len(within) > MAX_DEPTH or depth > MAX_DEPTH:
                raise _refused(place, _TOO_DEEP, self._path)
            else:
                yield from self.directives(name, (*within, name), depth)

    def _note(self, file: str, error: Exception) -> None:
        """One error of the parser: a note, or the end."""
        place = SourceLocation(file, getattr(error, "lineno", None) or 0)
        words = getattr(error, "strerror", "") or _TOO_DEEP
        if isinstance(error, NgxParserDirectiveArgumentsError):
            what = words.partition('"')[2].partition('"')[0]
            self._draft.note_dropped(place, what, f"nginx would refuse it: {words}")
            return
        raise _refused(place, words, self._path)

    def _too_much(self, words: str) -> NotImportable:
        return NotImportable(
            f"{self._path}: {words}, the most that is read: import the file with the upstreams"
        )


def _check_ends(file: str, path: Path) -> None:
    """A directive that is not ended would swallow what follows: the parser looks only at those it knows."""
    ended, line = True, 1
    try:
        for token, line, quoted in lex(file):
            if quoted or not token.startswith("#"):
                if token == "}" and not quoted and not ended:
                    raise _refused(SourceLocation(file, line), 'a ";" is missing before this "}"', path)
                ended = not quoted and token in (";", "{", "}")
    except NgxParserBaseException as error:
        raise _refused(SourceLocation(file, error.lineno or line), error.strerror, path) from None
    except OSError:
        return
    if not ended:
        raise _refused(
            SourceLocation(file, line), 'it ends in the middle of a directive: is a ";" missing?', path
        )


def _refused(place: SourceLocation, words: str, path: Path) -> NotImportable:
    return NotImportable(
        f"{place}: is not an nginx configuration: {words} (nginx -t -c {path.name} would say the same)"
    )
