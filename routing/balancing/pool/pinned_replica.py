"""Pinned replica (stickiness): the one replica that can serve a request, because it keeps its state."""


class PinnedReplica:
    """The only replica that may be asked: :meth:`routing.balancing.pool.pool.Pool.begin_pinned`."""

    __slots__ = ("finishes", "name", "uid", "what")

    def __init__(self, uid: str, name: str, what: str, finishes: bool) -> None:
        """``name``: of the replica, should it be gone. ``what`` it keeps, in words. ``finishes``: the request
        belongs to work that was taken on before, so a replica that empties is asked as well."""
        self.uid = uid
        self.name = name
        self.what = what
        self.finishes = finishes

    def __repr__(self) -> str:
        return f"<PinnedReplica {self.name}: {self.what}>"
