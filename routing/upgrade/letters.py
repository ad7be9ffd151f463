"""What a parent and the one that takes its place tell each other, and in which order.

====================  ========================================================================
old → new             :class:`Estate`, ids that replicas keep, then :class:`Complete`
new                   starts its workers on the inherited listeners
new → old             :class:`Ready`
old → new             :class:`Estate` again, then :class:`TakeOver`: the new one opens its admin door
old                   drains, and passes on ids that its workers still learn
====================  ========================================================================

The end of the stream before :class:`TakeOver` means that nothing comes of it.
"""

import msgspec

from routing.contract.table import FleetSnapshot, Manifest
from routing.processes.framed_channel import FramedChannel
from routing.replica_state.kept_ids import Place


class Estate(msgspec.Struct, frozen=True, tag="estate", kw_only=True):
    """Old → new: what it knows."""

    drained: list[tuple[str, str, float]] = []
    """Emergency drains: fleet, replica, and the seconds for which they still hold."""
    manifest: Manifest | None = None
    snapshots: list[FleetSnapshot] = []


class Ids(msgspec.Struct, frozen=True, tag="ids", kw_only=True):
    """Old → new: which replicas keep these."""

    places: list[tuple[str, Place]]


class Complete(msgspec.Struct, frozen=True, tag="complete"):
    """Old → new: begin."""


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """New → old: all workers serve and have a table."""


class TakeOver(msgspec.Struct, frozen=True, tag="take_over", kw_only=True):
    """Old → new: the proxy is yours."""

    stays: bool
    """Whether the old parent stays, and stands for the proxy towards whoever started it: its end is to be the
    proxy's end."""


Letter = Estate | Ids | Complete | Ready | TakeOver

_decoder: msgspec.msgpack.Decoder[Letter] = msgspec.msgpack.Decoder(Letter)


class HandoverChannel(FramedChannel[Letter]):
    """One end of the socket pair."""

    def decode(self, body: bytes) -> Letter:
        return _decoder.decode(body)
