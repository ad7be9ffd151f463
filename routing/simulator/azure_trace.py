"""Reader of traces in the format of Azure's LLM inference traces of 2023: one CSV line per request.

::

    TIMESTAMP,ContextTokens,GeneratedTokens
    2023-11-16 18:15:46.6805900,374,44

Source: github.com/Azure/AzurePublicDataset, ``AzureLLMInferenceTrace_conv.csv`` and ``…_code.csv``; Patel et
al., "Splitwise", ISCA 2024.
"""

import csv
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from routing.simulator.recorded import LFS_POINTER, MOST_TOKENS, BadTrace, Recorded, pointer, read_requests

TIME, PROMPT, OUTPUT = "TIMESTAMP", "ContextTokens", "GeneratedTokens"


def read(path: Path) -> list[Recorded]:
    """Requests in the order of their times. Raises BadTrace."""
    return read_requests(path, _requests)


def _requests(path: Path, lines: Iterable[str]) -> Iterator[Recorded]:
    rows = csv.reader(lines)
    try:
        first = [name.strip() for name in next(rows, [])]
        columns = _columns(path, first)
        for row in rows:
            if row:
                yield _request(f"{path}, line {rows.line_num}", row, columns)
    except csv.Error as error:
        raise BadTrace(f"{path}, line {rows.line_num}: {error}; fetch the file again") from None


def _columns(path: Path, names: list[str]) -> tuple[int, int, int]:
    """Where in a line each value is."""
    if names and names[0].startswith(LFS_POINTER):
        raise pointer(path)
    if names and names[0].startswith("{"):
        raise BadTrace(f"{path}, line 1: it has JSON lines; read it as a mooncake trace")
    for name in (TIME, PROMPT, OUTPUT):
        if name not in names:
            raise BadTrace(
                f"{path}, line 1: there is no column {name}; "
                f"the first line of an azure trace is {TIME},{PROMPT},{OUTPUT}"
            )
    return names.index(TIME), names.index(PROMPT), names.index(OUTPUT)


def _request(where: str, row: list[str], columns: tuple[int, int, int]) -> Recorded:
    if len(row) <= max(columns):
        raise BadTrace(
            f"{where}: there are {len(row)} values, not {max(columns) + 1}; "
            "the file may have been cut off, fetch it again"
        )
    time, prompt, output = columns
    return Recorded(
        _time(where, row[time]), _tokens(where, PROMPT, row[prompt]), _tokens(where, OUTPUT, row[output])
    )


def _time(where: str, text: str) -> float:
    try:
        when = datetime.fromisoformat(text.strip())
    except ValueError:
        raise BadTrace(
            f"{where}, column {TIME}: {text!r} is no time; write it as 2023-11-16 18:15:46.6805900"
        ) from None
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


def _tokens(where: str, column: str, text: str) -> int:
    digits = text.strip()
    if digits.isascii() and digits.isdecimal() and len(digits) < 10 and int(digits) <= MOST_TOKENS:
        return int(digits)
    raise BadTrace(
        f"{where}, column {column}: {text!r} is no number of tokens; "
        f"write a whole number from 0 to {MOST_TOKENS}"
    )
