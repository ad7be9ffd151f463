"""Sticky lookup: asks the master, and then Redis, which replica stores a response.

A worker sends the ids that it has learned, and asks for those that it does not know. The master remembers
what all workers of the host have learned, also when one of them dies. With a control plane Redis does the
same, for the proxies of other hosts. Without a reply within the time limit the id is unknown.
"""

from collections.abc import Callable
from typing import Protocol

from routing.ipc.control_channel import ControlMessage, QuerySticky, StickyLearned, StickyReply
from routing.ipc.pending_requests import PendingRequests
from routing.shared.sticky_ids import ReplicaRef

REPLY_TIMEOUT_S = 0.05


class StickyStore(Protocol):
    """The store beyond this host: Redis. A protocol, because a worker without a control plane does not import
    the Redis client."""

    def keep(self, name: str, replica_ref: ReplicaRef) -> None:
        """Never waits and raises nothing."""

    async def find(self, name: str) -> ReplicaRef | None:
        """Has a time limit, and raises nothing."""
        ...


class StickyLookup:
    """The lookup of one worker."""

    def __init__(self, send: Callable[[ControlMessage], None]) -> None:
        """``send``: sends a message to the master."""
        self.store: StickyStore | None = None
        self._send = send
        self._pending: PendingRequests[ReplicaRef] = PendingRequests(REPLY_TIMEOUT_S)

    def share(self, name: str, replica_ref: ReplicaRef) -> None:
        self._send(StickyLearned(name=name, replica_ref=replica_ref))
        if self.store is not None:
            self.store.keep(name, replica_ref)

    async def find(self, name: str) -> ReplicaRef | None:
        replica_ref = await self._pending.ask(
            lambda number: self._send(QuerySticky(question=number, name=name))
        )
        if replica_ref is None and self.store is not None:
            replica_ref = await self.store.find(name)
            if replica_ref is not None:
                # So that the host's other workers find it at the master.
                self.on_stored_before(name, replica_ref)
        return replica_ref

    def on_stored_before(self, name: str, replica_ref: ReplicaRef) -> None:
        """Redis has heard of this replica before this host has of another one."""
        self._send(StickyLearned(name=name, replica_ref=replica_ref, from_redis=True))

    def resolve(self, answer: StickyReply) -> None:
        self._pending.resolve(answer.question, answer.replica_ref)
