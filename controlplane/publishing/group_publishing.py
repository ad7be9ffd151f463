"""Group publishing (group commit): writes that commit at nearly the same time are published together.

A publish reads and sends the whole snapshot of each fleet that it is for, and every proxy worker takes it up.
A thousand replicas that register themselves at once would have that done a thousand times. Here one publish
serves all that have committed before it reads. A write that nobody else is beside is published at once. While
others are under way in this process, the publish waits for them, for GATHER_S at most.

Whoever calls waits until what he has written is stored, as if it were published for him alone.
"""

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from controlplane.publishing import publisher

GATHER_S = 0.05


class Publish(Protocol):
    def __call__(
        self, fleet_ids: Iterable[int], *, with_manifest: bool, removed: Collection[str] = ()
    ) -> bool: ...


class _Round:
    """What one publish is for."""

    def __init__(self) -> None:
        self.fleet_ids: set[int] = set()
        self.removed: set[str] = set()
        self.with_manifest = False
        self.members = 0
        self.is_over = False
        self.stored: bool | None = None
        """``None``: whoever published ran into an error."""


class _WriteUnderWay:
    """Who may yet publish something."""

    is_awaited = True


class GroupPublisher:
    """Of one process; used by any of its threads."""

    def __init__(self, publish: Publish, clock: Callable[[], float] = time.monotonic) -> None:
        self._publish = publish
        self._clock = clock
        self._changed = threading.Condition()
        self._writers = 0
        self._is_publishing = False
        self._next = _Round()
        self._here: ContextVar[_WriteUnderWay | None] = ContextVar("writer", default=None)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """A write that may be published at its end: those that have ended may wait for it. One within another
        is the same one."""
        if self._here.get() is not None:
            yield
            return
        writer = _WriteUnderWay()
        token = self._here.set(writer)
        with self._changed:
            self._writers += 1
        try:
            yield
        finally:
            self._here.reset(token)
            with self._changed:
                self._leave(writer)

    def _leave(self, writer: "_WriteUnderWay | None") -> None:
        """It is not waited for any more."""
        if writer is not None and writer.is_awaited:
            writer.is_awaited = False
            self._writers -= 1
            self._changed.notify_all()

    def publish(
        self, fleet_ids: Iterable[int], *, with_manifest: bool, removed: Collection[str] = ()
    ) -> bool:
        """As :func:`controlplane.publishing.publisher.publish`, after the write has committed."""
        wanted = set(fleet_ids)
        with self._changed:
            joined = self._join(wanted, with_manifest, removed)
            while self._is_publishing and not joined.is_over:
                self._changed.wait()
            leads = not joined.is_over
            if leads:
                self._is_publishing = True
                self._gather(joined)
                self._next = _Round()
            self._leave(self._here.get())
        if leads:
            return self._lead(joined)
        if joined.stored is not None:
            return joined.stored
        return self._publish(wanted, with_manifest=with_manifest, removed=removed)

    def _join(self, wanted: set[int], with_manifest: bool, removed: Collection[str]) -> _Round:
        joined = self._next
        joined.fleet_ids |= wanted
        joined.removed.update(removed)
        joined.with_manifest |= with_manifest
        joined.members += 1
        self._changed.notify_all()
        return joined

    def _gather(self, joined: _Round) -> None:
        """Until nobody writes who has not joined, or time is up."""
        until = self._clock() + GATHER_S
        while self._writers > joined.members and (left_s := until - self._clock()) > 0:
            self._changed.wait(left_s)

    def _lead(self, joined: _Round) -> bool:
        try:
            joined.stored = self._publish(
                joined.fleet_ids, with_manifest=joined.with_manifest, removed=joined.removed
            )
            return joined.stored
        finally:
            with self._changed:
                self._is_publishing = False
                joined.is_over = True
                self._changed.notify_all()


def _publish(fleet_ids: Iterable[int], *, with_manifest: bool, removed: Collection[str] = ()) -> bool:
    return publisher.publish(fleet_ids, with_manifest=with_manifest, removed=removed)


group_publisher = GroupPublisher(_publish)
"""This process's."""
