"""Request origin, for the audit log: where the write in progress comes from.

``session``, ``token sy_AbCdEf`` or, where nobody asked over HTTP, ``server``: a command or a process of this
installation.

A context variable, so that every audit entry gets it by itself and no verb can forget it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

SERVER = "server"
SESSION = "session"

_current: ContextVar[str] = ContextVar("current_origin", default=SERVER)


def current() -> str:
    return _current.get()


def token(prefix: str) -> str:
    """An API token, by the first characters that its owner can tell it by."""
    return f"token {prefix}"


def set_origin(origin: str) -> None:
    """Within an :func:`origin_scope`: it turned out to come from there."""
    _current.set(origin)


@contextmanager
def origin_scope(origin: str) -> Iterator[None]:
    """What is written within the block comes from there."""
    before = _current.set(origin)
    try:
        yield
    finally:
        _current.reset(before)
