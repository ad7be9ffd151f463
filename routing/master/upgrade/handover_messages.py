"""Handover messages of a hot restart, between the old master and the new one, in order.

====================  ========================================================================
old → new             :class:`HandoverState`, :class:`StickyIdBatch` as needed, then :class:`StateComplete`
new                   starts its workers on the inherited listeners
new → old             :class:`SuccessorReady`
old → new             :class:`HandoverState` again, then :class:`TakeOver`: the new one opens its admin server
old                   drains, and forwards the sticky ids that its workers still learn
====================  ========================================================================

The end of the stream before :class:`TakeOver` means that the handover has failed.
"""

import msgspec

from routing.contract.table import FleetSnapshot, Manifest
from routing.ipc.framed_channel import FramedChannel
from routing.shared.sticky_ids import ReplicaRef


class HandoverState(msgspec.Struct, frozen=True, tag="estate", kw_only=True):
    """Old → new: the old master's state."""

    drained: list[tuple[str, str, float]] = []
    """Emergency drains: fleet, replica, and the seconds that are left."""
    manifest: Manifest | None = None
    snapshots: list[FleetSnapshot] = []


class StickyIdBatch(msgspec.Struct, frozen=True, tag="ids", kw_only=True):
    """Old → new: ids of stored responses, with their replicas."""

    places: list[tuple[str, ReplicaRef]]


class StateComplete(msgspec.Struct, frozen=True, tag="complete"):
    """Old → new: the state is complete; start the workers."""


class SuccessorReady(msgspec.Struct, frozen=True, tag="ready"):
    """New → old: all workers serve and have a table."""


class TakeOver(msgspec.Struct, frozen=True, tag="take_over", kw_only=True):
    """Old → new: the new master is responsible from now on."""

    stays: bool
    """Whether the old master stays as the main process for whatever started it: then the new one must exit
    when the old one ends."""


HandoverMessage = HandoverState | StickyIdBatch | StateComplete | SuccessorReady | TakeOver

_decoder: msgspec.msgpack.Decoder[HandoverMessage] = msgspec.msgpack.Decoder(HandoverMessage)


class HandoverChannel(FramedChannel[HandoverMessage]):
    """One end of the socket pair."""

    def decode(self, body: bytes) -> HandoverMessage:
        return _decoder.decode(body)
