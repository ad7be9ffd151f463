"""Input files: what a person names to be read, within a limit of bytes. Only what has an end is read.

That is a regular file, or standard input; for who reads once, also a pipe, as a shell's ``<(command)`` makes
one. Anything else under a file's name is refused before it is opened: it may give bytes for ever, or none.
"""

import errno
import os
import select
import stat
import sys
from pathlib import Path
from typing import BinaryIO

STANDARD_INPUT = "-"
SILENCE_S = 60.0
"""How long the writer of a pipe may write nothing. A terminal may be silent for ever: a person sits there."""

_MIB = 1024 * 1024
_PIECE = 65_536
_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


class InputRefused(OSError):
    """What is there is not read. ``strerror`` goes on where the file's name ended, and names the cure."""


def read(path: str | Path, most_bytes: int) -> bytes:
    """A whole file. Raises OSError; :class:`InputRefused` for no regular file, and one of more bytes."""
    with open_regular(path) as file:
        if os.fstat(file.fileno()).st_size > most_bytes:
            raise _too_large(most_bytes, str(path))
        # Files of the kernel say that they have no bytes, and others grow.
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise _too_large(most_bytes, str(path))
    return data


def read_once(path: str | Path, most_bytes: int, silence_s: float = SILENCE_S) -> bytes:
    """As :func:`read`; of a pipe under a file's name what comes through, as :func:`read_standard_input`."""
    if not stat.S_ISFIFO(os.stat(path).st_mode):
        return read(path, most_bytes)
    # Without O_NONBLOCK, opening it waits for somebody who writes.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return _until_end(descriptor, most_bytes, silence_s, str(path))
    finally:
        os.close(descriptor)


def open_regular(path: str | Path) -> BinaryIO:
    """A file to read from. Raises OSError; :class:`InputRefused` for what is no regular file."""
    _refuse_others(os.stat(path), path)
    # It may have become a pipe since, which would be waited for.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    file = os.fdopen(descriptor, "rb")
    try:
        _refuse_others(os.fstat(descriptor), path)
    except InputRefused:
        file.close()
        raise
    return file


def read_standard_input(most_bytes: int, silence_s: float = SILENCE_S) -> bytes:
    """Standard input until it ends. Raises OSError; :class:`InputRefused` for more bytes, and for a pipe that
    nothing came through for ``silence_s`` seconds."""
    descriptor = sys.stdin.fileno()
    return _until_end(descriptor, most_bytes, None if os.isatty(descriptor) else silence_s, None)


def _until_end(descriptor: int, most_bytes: int, silence_s: float | None, path: str | None) -> bytes:
    data = bytearray()
    while len(data) <= most_bytes:
        readable, _, _ = select.select([descriptor], [], [], silence_s)
        if not readable:
            words = f"nothing came for {silence_s:g} s: give a file, or a command that ends"
            raise InputRefused(errno.ETIMEDOUT, words, path)
        piece = os.read(descriptor, _PIECE)
        if not piece:
            return bytes(data)
        data += piece
    raise _too_large(most_bytes, path)


def shown_limit(most_bytes: int) -> str:
    """``8 MiB``."""
    return f"{most_bytes // _MIB} MiB" if most_bytes >= _MIB else f"{most_bytes} bytes"


def _too_large(most_bytes: int, path: str | None) -> InputRefused:
    words = f"has more than {shown_limit(most_bytes)}, the most that is read: divide it, or leave parts out"
    return InputRefused(errno.EFBIG, words, path)


def _refuse_others(status: os.stat_result, path: str | Path) -> None:
    if stat.S_ISREG(status.st_mode):
        return
    kind = next((words for matches, words in _KINDS if matches(status.st_mode)), "something else")
    words = f"is {kind}, and only regular files are read: save what it holds as a file"
    raise InputRefused(errno.EINVAL, words, str(path))
