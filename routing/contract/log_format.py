"""Log format, the same in both planes: one JSON object a line, or text for a terminal.

A JSON line holds ``time`` (RFC 3339, UTC, milliseconds), ``level``, ``logger``, ``message`` and ``process``;
``request_id`` where the line was written while a request was served; ``exception`` where there was one; and
whatever the caller gave as ``extra={"fields": {…}}``. Nothing in here is copied from a request.
"""

import logging
import time
from contextvars import ContextVar
from typing import Any, Literal, TextIO

import msgspec

Format = Literal["json", "text"]
FORMATS: tuple[Format, ...] = ("json", "text")

REQUEST_ID: ContextVar[str] = ContextVar("request_id", default="")
"""Id of the request that is being served; empty outside of one."""


def default_format(stream: TextIO | None) -> Format:
    """Text for a person at a terminal, JSON for everything that collects lines."""
    return "text" if stream is not None and stream.isatty() else "json"


class JsonLineFormatter(logging.Formatter):
    """One object a line. ``process``: which process of Switchyard writes, as in ``proxy/worker/0``."""

    def __init__(self, process: str) -> None:
        super().__init__()
        self.process = process

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = dict(fields_of(record))
        line |= {
            "time": rfc3339(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "process": self.process,
        }
        if request_id := REQUEST_ID.get():
            line["request_id"] = request_id
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return encoded(line)


class TextLineFormatter(logging.Formatter):
    """``2026-01-31T12:00:00.000Z INFO web django.request: words field=value (request 1f…)``."""

    def __init__(self, process: str, *, with_logger: bool = True) -> None:
        super().__init__()
        self.process = process
        self._with_logger = with_logger

    def formatMessage(self, record: logging.LogRecord) -> str:
        source = f"{self.process} {record.name}" if self._with_logger else self.process
        text = f"{rfc3339(record.created)} {record.levelname} {source}: {record.message}"
        for name, value in fields_of(record).items():
            text += f" {name}={value}"
        request_id = REQUEST_ID.get()
        return f"{text} (request {request_id})" if request_id else text

    def format(self, record: logging.LogRecord) -> str:
        record.message = record.getMessage()
        text = self.formatMessage(record)
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """What the caller gave as ``extra={"fields": …}``."""
    found: dict[str, Any] = getattr(record, "fields", {})
    return found


def rfc3339(seconds: float) -> str:
    """Unix seconds as RFC 3339 in UTC."""
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{whole}.{int(seconds * 1000) % 1000:03d}Z"


def encoded(line: dict[str, Any]) -> str:
    """``time`` and ``level`` first, so that a person can read the lines too."""
    first = {name: line[name] for name in ("time", "level", "message") if name in line}
    return msgspec.json.encode(first | line, enc_hook=str).decode()
