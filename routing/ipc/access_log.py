"""Access log: one line for each request, written by a thread: no request waits for a disk.

A thread writes the collected lines four times a second, whole lines at a time, so that several workers may
append to one file. A file that was moved away (by logrotate, say) is opened anew. When the disk cannot keep
up, lines are dropped, and the ordinary log says how many. Never in a line: bodies, header fields, query
strings.
"""

import logging
import os
import sys
import threading
import time
from pathlib import Path

import msgspec

from routing.contract.log_format import Format, rfc3339

log = logging.getLogger(__name__)

FLUSH_EVERY_S = 0.25
MAX_BUFFERED_LINES = 50_000
MAX_PATH_CHARS = 512
STANDARD_OUTPUT = "-"


class AccessLine(msgspec.Struct, kw_only=True):
    """One request. Times are milliseconds from its complete head."""

    time: float
    """Unix seconds when the answer had ended."""
    request_id: str = ""
    trace_id: str = ""
    """The client's, or begun for it."""
    client: str = ""
    method: str = ""
    path: str = ""
    """Without the query, at most MAX_PATH_CHARS characters."""
    fleet: str = ""
    replica: str = ""
    """That answered, or was asked last."""
    status: int = 0
    """As sent to the client; 0: the client left first."""
    outcome: str = ""
    """``answered``: by a replica. ``local``: by the proxy itself. ``error``: see ``code``. ``cut``: the
    answer was broken off. ``client_left``. ``refused``: the head was no request."""
    code: str = ""
    """Of the proxy's own error, as its body says."""
    retries: int = 0
    second: str = ""
    """What became of a second replica that was sent the request as well: ``won``, ``lost``, ``failed`` or
    ``cancelled``; empty: there was none."""
    fallback: str = ""
    """Why ``fleet`` has served it in place of another one."""
    asked_fleet: str = ""
    """That other one, which the client has asked."""
    continued: int = 0
    """How often another replica went on with the answer."""
    bytes: int = 0
    """Sent to the client, head included."""
    first_byte_ms: float | None = None
    ms: float | None = None


class AccessLog:
    """The access log of one worker. ``place``: a path, or ``-`` for standard output."""

    def __init__(self, place: str, form: Format, process: str) -> None:
        """Raises OSError when the file cannot be opened."""
        self._place = place
        self._encode = _json_lines if form == "json" else _text_lines
        self._process = process
        self._lines: list[AccessLine] = []
        self._dropped = 0
        self._failing = False
        self._file = _opened(place)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="access-log", daemon=True)
        self._thread.start()

    def add(self, line: AccessLine) -> None:
        """Called from the event loop; never waits."""
        if len(self._lines) < MAX_BUFFERED_LINES:
            self._lines.append(line)
        else:
            self._dropped += 1

    def close(self) -> None:
        """Write what is left."""
        self._ending.set()
        self._thread.join(2.0)

    def _run(self) -> None:
        while not self._ending.wait(FLUSH_EVERY_S):
            self._flush()
        self._flush()

    def _flush(self) -> None:
        lines, self._lines = self._lines, []
        dropped, self._dropped = self._dropped, 0
        if dropped:
            log.warning("%d lines of the access log were dropped: the disk did not keep up", dropped)
        if not lines:
            return
        failing = False
        try:
            self._reopen_if_rotated()
        except OSError as problem:
            # For want of a descriptor, say. The file that was moved away is still open.
            failing = True
            self._say("the access log cannot be opened anew; its old file is written on: %s", problem)
        try:
            _write(self._file, self._encode(lines, self._process))
        except OSError as problem:
            failing = True
            self._say("the access log cannot be written: %s", problem)
        self._failing = failing

    def _say(self, words: str, problem: OSError) -> None:
        """Once, until it can be written again."""
        if not self._failing:
            log.error(words, problem)

    def _reopen_if_rotated(self) -> None:
        if self._place == STANDARD_OUTPUT:
            return
        here = os.fstat(self._file)
        try:
            there = os.stat(self._place)
        except FileNotFoundError:
            there = None
        if there is None or (there.st_ino, there.st_dev) != (here.st_ino, here.st_dev):
            new = _opened(self._place)
            os.close(self._file)
            self._file = new


def check(place: str) -> None:
    """Whether the file can be written, before anything starts. Raises OSError."""
    if place != STANDARD_OUTPUT:
        os.close(_opened(place))


def _opened(place: str) -> int:
    if place == STANDARD_OUTPUT:
        return sys.stdout.fileno()
    return os.open(Path(place), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)


def _write(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]


def now() -> float:
    return time.time()


_encoder = msgspec.json.Encoder()


def _json_lines(lines: list[AccessLine], process: str) -> bytes:
    shaped = [
        {
            "time": rfc3339(line.time),
            "level": "info",
            "logger": "switchyard.access",
            "message": f"{line.method} {line.path} {line.status}",
            "process": process,
            **{name: value for name, value in msgspec.structs.asdict(line).items() if name != "time"},
        }
        for line in lines
    ]
    return _encoder.encode_lines(shaped)


def _text_lines(lines: list[AccessLine], process: str) -> bytes:
    return "".join(_text(line, process) for line in lines).encode("utf-8", "backslashreplace")


def _text(line: AccessLine, process: str) -> str:
    values = msgspec.structs.asdict(line)
    shown = (f"{name}={_quoted(value)}" for name, value in values.items() if name != "time")
    return f"{rfc3339(line.time)} {process} {' '.join(shown)}\n"


def _quoted(value: object) -> str:
    """Nothing in a line can look like another field or another line."""
    text = "-" if value in ("", None) else str(value)
    plain = text.isprintable() and " " not in text and "=" not in text and '"' not in text
    return text if plain else msgspec.json.encode(text).decode()
