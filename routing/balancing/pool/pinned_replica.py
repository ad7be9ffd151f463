"""Pinned replica (stickiness): the only replica that can serve a request, because it stores its state."""


class PinnedReplica:
    """The argument of :meth:`routing.balancing.pool.pool.Pool.begin_pinned`."""

    __slots__ = ("name", "only_finishes", "stored_item", "uid")

    def __init__(self, uid: str, name: str, stored_item: str, only_finishes: bool) -> None:
        """``name``: the replica's, for the message if it has been removed. ``stored_item``: what it stores,
        in words. ``only_finishes``: the request only reads or ends what is stored, so a draining replica
        serves it too."""
        self.uid = uid
        self.name = name
        self.stored_item = stored_item
        self.only_finishes = only_finishes

    def __repr__(self) -> str:
        return f"<PinnedReplica {self.name}: {self.stored_item}>"
