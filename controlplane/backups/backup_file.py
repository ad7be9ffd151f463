"""Format of a backup: gzip over JSON lines.

The first line is the head, then for each table one line ``{"table", "fields"}`` followed by one array for
each row, and at last ``{"rows": N}``: a file that was cut short has no such line and is refused before
anything is written.
"""

import gzip
import json
import os
import uuid
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from routing.contract import input_file
from routing.contract.input_file import InputRefused

FORMAT = 1
MAX_LINE = 64 * 1024 * 1024
"""Characters of one row. Rows are read one by one, so this is what bounds the memory; a file has no limit."""


class BackupError(Exception):
    """Words for the person who runs the command: what is wrong, and the cure."""


class BackupHeader(NamedTuple):
    made_at: str
    """UTC, ISO 8601."""
    database: str
    """``sqlite`` or ``postgresql``: for information, either can be restored into the other."""
    key_check: str
    """Tells whether the secret key is the same, and nothing else about it."""
    migrations: list[tuple[str, str]]
    """(app, name) of the schema that the rows have."""


class BackupRow(NamedTuple):
    table: str
    fields: list[str]
    values: list[Any]


def write(
    file: Path, head: BackupHeader, tables: Iterable[tuple[str, list[str], Iterable[tuple[Any, ...]]]]
) -> int:
    """Writes aside and moves into place, readable by this user only. Returns the number of rows."""
    aside = file.with_name(f"{file.name}.{os.getpid()}.part")
    rows = 0
    try:
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as raw, gzip.open(raw, "wt", encoding="utf-8") as stream:
            _line(stream, {"switchyard_backup": FORMAT, **head._asdict()})
            for table, fields, values in tables:
                _line(stream, {"table": table, "fields": fields})
                for row in values:
                    _line(stream, row)
                    rows += 1
            _line(stream, {"rows": rows})
        os.replace(aside, file)
    except OSError as error:
        raise BackupError(f"{file} cannot be written: {error.strerror}.") from error
    finally:
        with suppress(OSError):
            aside.unlink()
    return rows


def _line(stream: Any, value: Any) -> None:
    stream.write(json.dumps(value, default=_plain, ensure_ascii=False, separators=(",", ":")) + "\n")


def _plain(value: Any) -> str:
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, uuid.UUID):
        return str(value)
    raise TypeError(f"a {type(value).__name__} cannot be written into a backup")


def read_head(file: Path) -> BackupHeader:
    """Raises BackupError for what is no backup, or one of a later format."""
    first = next(_lines(file), None)
    if not isinstance(first, dict) or "switchyard_backup" not in first:
        raise BackupError(f"{file} is not a backup: manage.py backup FILE makes one.")
    if first["switchyard_backup"] != FORMAT:
        raise BackupError(f"{file} was made by a newer Switchyard: upgrade this one, then restore.")
    try:
        migrations = [(app, name) for app, name in first["migrations"]]
        return BackupHeader(first["made_at"], first["database"], first["key_check"], migrations)
    except (LookupError, TypeError, ValueError):
        raise BackupError(f"{file} is not a backup: its head is not whole.") from None


def read_rows(file: Path) -> Iterator[BackupRow]:
    """Every row. Raises BackupError, at the end at the latest, when the file is damaged or cut short."""
    table, fields, rows, ended = "", list[str](), 0, False
    lines = _lines(file)
    next(lines)
    for line in lines:
        if isinstance(line, list) and len(line) == len(fields):
            rows += 1
            yield BackupRow(table, fields, line)
        elif isinstance(line, dict) and isinstance(line.get("fields"), list):
            table, fields = str(line.get("table")), line["fields"]
        else:
            ended = line == {"rows": rows}
    if not ended:
        raise BackupError(f"{file} is truncated or was changed: the row count in its last line is wrong.")


def _lines(file: Path) -> Iterator[Any]:
    try:
        with (
            input_file.open_regular(file) as raw,
            gzip.open(raw, "rt", encoding="utf-8") as stream,
        ):
            while line := stream.readline(MAX_LINE + 1):
                if len(line) > MAX_LINE:
                    limit = input_file.shown_limit(MAX_LINE)
                    raise BackupError(f"{file} is no backup: one of its lines has more than {limit}.")
                yield json.loads(line)
    except FileNotFoundError:
        raise BackupError(f"There is no file {file}.") from None
    except InputRefused as error:
        raise BackupError(f"{file} {error.strerror}.") from None
    except RecursionError:
        raise BackupError(f"{file} is no backup: a line of it is nested too deeply.") from None
    except (EOFError, ValueError, zlib.error, gzip.BadGzipFile) as error:
        raise BackupError(f"{file} is damaged or is no backup: {error}.") from error
    except OSError as error:
        raise BackupError(f"{file} cannot be read: {error.strerror}.") from error
