"""Viewer: for whom a request is served, so that what it is told names no fleet that the account may not see.

A context variable, as the origin of a request is: words that name fleets are made deep in the services, and
none of them can forget it. Where nobody asked over HTTP (commands, other processes) there is no viewer, and
every fleet is named.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from controlplane.access.grants import Access
from controlplane.access.roles import Role

UNSEEN = "a fleet that you may not see"

_current: ContextVar[Access | None] = ContextVar("current_viewer", default=None)


def set_viewer(access: Access) -> None:
    """Within a :func:`viewer_scope`: it turned out to be for who has this access."""
    _current.set(access)


@contextmanager
def viewer_scope(access: Access | None = None) -> Iterator[None]:
    """What is said within the block is for who has this access; None: it is not known yet, or nobody's."""
    before = _current.set(access)
    try:
        yield
    finally:
        _current.reset(before)


def seen_fleets() -> frozenset[str] | None:
    """Names of the fleets that may be named. None: all."""
    access = _current.get()
    return None if access is None else access.fleet_names()


def may_see(fleet: str) -> bool:
    seen = seen_fleets()
    return seen is None or fleet in seen


def has_role(fleet: str, role: Role) -> bool:
    """Whether who asks has this role there, or a higher one. Nobody but over HTTP: all of them."""
    access = _current.get()
    names = None if access is None else access.fleet_names(role)
    return names is None or fleet in names


def fleet_in_words(fleet: str) -> str:
    """``fleet llm``, or that it is one which may not be seen."""
    return f"fleet {fleet}" if may_see(fleet) else UNSEEN
