"""Recorded requests: the common form of LLM traces, and opening a trace file."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

MOST_TOKENS = 10_000_000
"""Of one prompt or answer; more than that is a mistake."""
LFS_POINTER = "version https://git-lfs"


class BadTrace(ValueError):
    """The file is not a trace of this format; the message has line, column and what to do."""


class Recorded(NamedTuple):
    """One request of a trace."""

    at_s: float
    prompt_tokens: int
    output_tokens: int
    blocks: tuple[int, ...] = ()
    """Names of the prompt's blocks of 512 tokens; empty: they are not known."""


def read_requests(path: Path, read: Callable[[Path, Iterable[str]], Iterator[Recorded]]) -> list[Recorded]:
    """In the order of their times. Raises BadTrace."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as lines:
            found = sorted(read(path, lines), key=lambda one: one.at_s)
    except OSError as error:
        raise BadTrace(f"{path} cannot be read: {error.strerror}; give the path of a trace file") from None
    except UnicodeDecodeError:
        raise BadTrace(f"{path} is not text in UTF-8; unpack it first if it is packed") from None
    if not found:
        raise BadTrace(f"{path}: there is no request in it; it may have been cut off, fetch it again")
    return found


def pointer(path: Path) -> BadTrace:
    """Where a repository keeps its large files elsewhere, and this is where it says so."""
    return BadTrace(f"{path}, line 1: it only points to a file in Git LFS; fetch that with git lfs pull")
