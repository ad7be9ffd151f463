"""Reader of traces in Mooncake's format: one JSON object per line.

::

    {"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, 2353]}

``timestamp`` is milliseconds since the trace began, lengths are tokens, and ``hash_ids`` name the prompt's
blocks of 512 tokens: one name stands for a block and all that is before it, so prompts that begin alike begin
with the same names. Without them nothing is known of how prompts begin.

Source: github.com/kvcache-ai/Mooncake, ``FAST25-release/traces``; Qin et al., "Mooncake", FAST 2025.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import msgspec

from routing.simulator.recorded import LFS_POINTER, MOST_TOKENS, BadTrace, Recorded, pointer, read_requests

EXAMPLE = '{"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47]}'
_Tokens = Annotated[int, msgspec.Meta(ge=0, le=MOST_TOKENS)]
_CURES = {
    "timestamp": "give milliseconds since the trace began, 0 or more",
    "input_length": f"give a whole number of tokens from 0 to {MOST_TOKENS}",
    "output_length": f"give a whole number of tokens from 0 to {MOST_TOKENS}",
    "hash_ids": "give a list of whole numbers from 0 on, one for every 512 tokens of the prompt",
}
_FIELD = re.compile(r"`(?:\$\.)?(\w+)")


class _Line(msgspec.Struct, frozen=True):
    timestamp: Annotated[float, msgspec.Meta(ge=0)]
    input_length: _Tokens
    output_length: _Tokens
    hash_ids: tuple[Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)], ...] = ()


_DECODER = msgspec.json.Decoder(_Line)


def read(path: Path) -> list[Recorded]:
    """Requests in the order of their times. Raises BadTrace."""
    return read_requests(path, _requests)


def _requests(path: Path, lines: Iterable[str]) -> Iterator[Recorded]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            said = _DECODER.decode(line)
        except msgspec.ValidationError as error:
            raise BadTrace(_wrong_field(f"{path}, line {number}", str(error))) from None
        except msgspec.DecodeError as error:
            raise _no_json(path, number, line, error) from None
        yield Recorded(said.timestamp / 1000, said.input_length, said.output_length, said.hash_ids)


def _wrong_field(where: str, error: str) -> str:
    named = [name for name in _FIELD.findall(error) if name in _CURES]
    if not named:
        return f"{where}: {error}; a line of a mooncake trace is {EXAMPLE}"
    field = named[-1]
    what = "it is missing" if error.startswith("Object missing") else error.split(" - at ")[0]
    return f"{where}, field {field}: {what}; {_CURES[field]}"


def _no_json(path: Path, number: int, line: str, error: msgspec.DecodeError) -> BadTrace:
    if line.startswith(LFS_POINTER):
        return pointer(path)
    if number == 1 and "ContextTokens" in line:
        return BadTrace(f"{path}, line 1: it has comma-separated values; read it as an azure trace")
    return BadTrace(
        f"{path}, line {number}: it is no JSON object ({error}); a line of a mooncake trace is {EXAMPLE}"
    )
