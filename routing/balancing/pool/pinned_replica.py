"""Pinned replica (stickiness): the only replica that can serve a request, because it stores its state."""


class PinnedReplica:
    """The argument of :meth:`routing.balancing.pool.pool.Pool.begin_pinned`."""

    __slots__ = ("finishes", "name", "uid", "what")

    def __init__(self, uid: str, name: str, what: str, finishes: bool) -> None:
        """``name``: the replica's, for the message if it has been removed. ``what``: what it stores, in
        words. ``finishes``: the request only reads or ends what is stored, so a draining replica serves it
        too."""
        self.uid = uid
        self.name = name
        self.what = what
        self.finishes = finishes

    def __repr__(self) -> str:
        return f"<PinnedReplica {self.name}: {self.what}>"
