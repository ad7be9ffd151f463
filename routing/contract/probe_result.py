"""Probe result: what one probe found, in words a person reads at 3 a.m.

Pure: the sender passes in the response's status and body, or the error it got.
"""

import errno
import json
import os
import socket
from http import HTTPStatus
from typing import Literal, NamedTuple

from routing.contract.address_policy import DeniedAddress

Hint = Literal["ready", "unready", "down"]

MAX_BODY_BYTES = 65_536
"""As much of a response body as a probe needs to read."""

MAX_WORDS = 200

_OWN_ERRNOS = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL}
"""No descriptor, memory or local port is left where the probe comes from."""

_ERRNO_WORDS = {
    errno.ECONNREFUSED: "connection refused",
    errno.ECONNRESET: "connection closed without a response",
    errno.EPIPE: "connection closed without a response",
    errno.EHOSTUNREACH: "no route to the host",
    errno.ENETUNREACH: "no route to the network",
    errno.EHOSTDOWN: "the host is down",
}


class ProbeResult(NamedTuple):
    """One probe's result."""

    passed: bool
    hint: Hint
    """The state after several such results: ``unready`` is alive but cannot serve, ``down`` is not alive."""
    words: str
    inconclusive: bool = False
    """No response in time, or no address of its name. A saturated replica is slow to answer probes, and DNS
    may be away where the replica is not: this alone proves little."""
    own_fault: bool = False
    """The prober itself was late, or had no socket left: this says nothing of the replica."""


def own_fault(words: str) -> ProbeResult:
    """Whoever probes could not: nothing was learned."""
    return ProbeResult(False, "down", _short(words), inconclusive=True, own_fault=True)


def passed(words: str) -> ProbeResult:
    return ProbeResult(True, "ready", _short(words))


def unready(words: str) -> ProbeResult:
    return ProbeResult(False, "unready", _short(words))


def down(words: str) -> ProbeResult:
    return ProbeResult(False, "down", _short(words))


def result_of_error(error: BaseException, timeout_s: float) -> ProbeResult:
    """What it means that a probe got no HTTP response.

    ``error`` is what connecting or reading raised: an OSError (as such, or wrapped by a client that
    keeps it in ``os_error``), a TimeoutError after ``timeout_s``, or a protocol error.
    """
    cause: BaseException = getattr(error, "os_error", error)
    if isinstance(error, TimeoutError) or isinstance(cause, TimeoutError):
        return ProbeResult(False, "down", f"no response in {timeout_s:.1f} s", inconclusive=True)
    if isinstance(cause, socket.gaierror):
        return ProbeResult(False, "down", "the host name is unknown", inconclusive=True)
    if isinstance(cause, DeniedAddress):
        return down(str(cause))
    if isinstance(cause, EOFError):
        return down("connection closed without a response")
    number = getattr(cause, "errno", None)
    if number in _OWN_ERRNOS:
        return own_fault(f"not probed, the prober's own machine says: {os.strerror(number)}")
    if number in _ERRNO_WORDS:
        return down(_ERRNO_WORDS[number])
    # asyncio joins the errors of several addresses (::1 and 127.0.0.1) into one text.
    if f"[Errno {errno.ECONNREFUSED}]" in str(cause):
        return down("connection refused")
    return down(f"no response: {str(cause) or type(cause).__name__}")


def status_words(status: int, body: bytes = b"") -> str:
    """``503 Loading model``: the status, and what the body says of it or else its usual meaning."""
    said = message_of(body) if status >= 400 else ""
    if not said:
        said = HTTPStatus(status).phrase if status in HTTPStatus.__members__.values() else ""
    return _short(f"{status} {said}".strip())


def message_of(body: bytes) -> str:
    """The error message inside a body, or a short plain text; empty when there is none to show.

    Reads ``{"error": {"message": …}}`` (OpenAI), ``{"error": …}`` (V2), ``{"message": …}``,
    ``{"detail": …}``.
    """
    text = body[:MAX_BODY_BYTES].decode("utf-8", "replace").strip()
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return "" if text.startswith(("<", "{", "[")) else _short(text)
    if not isinstance(content, dict):
        return ""
    for key in ("error", "message", "detail"):
        value = content.get(key)
        if isinstance(value, dict):
            value = value.get("message")
        if isinstance(value, str) and value.strip():
            return _short(value)
    return ""


def _short(text: str) -> str:
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= MAX_WORDS else line[: MAX_WORDS - 1] + "…"
