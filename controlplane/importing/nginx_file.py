"""An nginx configuration as a tree of directives, with the files that it includes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import crossplane
from crossplane.errors import NgxParserBaseException, NgxParserDirectiveArgumentsError
from crossplane.lexer import lex

from controlplane.importing.model import Draft, NotImportable, SourceLocation


class Directive(NamedTuple):
    """``name args;`` or ``name args { block }``."""

    name: str
    args: tuple[str, ...]
    place: SourceLocation
    block: tuple["Directive", ...] | None

    def __str__(self) -> str:
        return " ".join([self.name, *self.args])


def read(path: Path, draft: Draft) -> list[Directive]:
    """The directives of a file and of what it includes; what cannot be read of them is noted as dropped.

    Raises NotImportable in one sentence when the file cannot be read or is no nginx configuration.
    """
    try:
        head = path.read_bytes()
    except OSError as error:
        raise NotImportable(f"{path}: {error.strerror}") from None
    if b"\0" in head:
        raise NotImportable(f"{path}: is not an nginx configuration: it holds zero bytes")
    payload = crossplane.parse(str(path), onerror=lambda error: error, check_ctx=False)
    for file in payload["config"]:
        _check_ends(file["file"], path)
    for found in payload["errors"]:
        _note(found, path, draft)
    files = payload["config"]
    return list(_directives(files[0]["parsed"], files, (0,), draft))


def _note(found: dict[str, Any], path: Path, draft: Draft) -> None:
    """One error of the parser: a note, or the end."""
    error, place = found["callback"], SourceLocation(found["file"], found["line"] or 0)
    if isinstance(error, OSError):
        draft.note_dropped(place, f"include {error.filename}", f"the file cannot be read: {error.strerror}")
        return
    words = getattr(error, "strerror", "") or "blocks are nested too deeply"
    if isinstance(error, NgxParserDirectiveArgumentsError):
        draft.note_dropped(
            place, words.partition('"')[2].partition('"')[0], f"nginx would refuse it: {words}"
        )
        return
    raise _refused(place, words, path)


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


def _directives(
    statements: list[dict[str, Any]], files: list[dict[str, Any]], within: tuple[int, ...], draft: Draft
) -> Iterator[Directive]:
    """With includes put in where they stand. ``within``: the files around this one, against circles."""
    for statement in statements:
        place = SourceLocation(files[within[-1]]["file"], statement["line"])
        if "includes" in statement:
            yield from _included(statement, files, within, place, draft)
            continue
        block = statement.get("block")
        inner = None if block is None else tuple(_directives(block, files, within, draft))
        yield Directive(statement["directive"], tuple(statement["args"]), place, inner)


def _included(
    statement: dict[str, Any],
    files: list[dict[str, Any]],
    within: tuple[int, ...],
    place: SourceLocation,
    draft: Draft,
) -> Iterator[Directive]:
    pattern = statement["args"][0]
    if not statement["includes"] and "*" in pattern:
        draft.note_dropped(place, f"include {pattern}", "no file matches it")
    for index in statement["includes"]:
        if index in within:
            draft.note_dropped(place, f"include {pattern}", "it includes itself")
        else:
            yield from _directives(files[index]["parsed"], files, (*within, index), draft)
