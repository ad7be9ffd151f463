"""Exposed paths and models of one pool (allowlist), compiled when its table is applied.

A pool whose paths alone are limited, and not by a list, needs one bit of a request's route. Otherwise
``required`` is 0, which no route has, and the proxy takes a closer look at each request.
"""

from __future__ import annotations

from collections.abc import Collection

from routing.contract.exposure import ALL, ANY_PATH, Expose, required_bit
from routing.contract.table import FleetSnapshot


class Exposed:
    """Replaced as a whole, never changed."""

    __slots__ = ("bit", "entered", "expose", "host_is_shared", "models", "paths", "required")

    def __init__(
        self, snapshot: FleetSnapshot, host_is_shared: bool, further_down: Collection[bytes] = ()
    ) -> None:
        self.expose: Expose | None = snapshot.expose
        """``None``: nothing is refused, and what ``inference`` would refuse is counted."""
        self.host_is_shared = host_is_shared
        """Whether another fleet has a replica at the same address, so that a model's name decides whose
        requests these are."""
        self.paths: frozenset[bytes] | None = None
        """Paths that are open with everything below them; ``None``: the bit decides."""
        self.models: frozenset[str] | None = None
        """Names of models, as replicas know them, that a request may name; ``None``: any. Names are
        enforced where the fleet declares what its replicas call their models, and where hosts are shared."""
        self.entered: tuple[bytes, ...] = ()
        """Where paths lead to another fleet's replicas, which is closed: beginnings of normalised paths in
        lower case, each with a slash at its end."""
        if snapshot.expose != ALL:
            self.entered = tuple(sorted(prefix + b"/" for prefix in further_down))
        if isinstance(snapshot.expose, list):
            self.paths = frozenset(path.encode() for path in snapshot.expose)
        if snapshot.expose != ALL and (host_is_shared or snapshot.served_model or snapshot.adapters):
            self.models = frozenset((snapshot.served_model or snapshot.name, *snapshot.adapters))
        self.bit = required_bit(snapshot.expose, snapshot.protocol)
        """What a route must have to pass; 0: its path is compared with :attr:`paths`."""
        self.required = 0 if self.models is not None or self.entered else self.bit
        """The same, if that is all there is to check."""

    @property
    def is_enforced(self) -> bool:
        return self.expose is not None

    def may_refuse_more(self, before: Exposed) -> bool:
        """Whether a path that was open before may be closed now, because the fleet exposes something else."""
        if not self.is_enforced or self.bit == ANY_PATH:
            return False
        now, then = [(one.is_enforced, one.bit, one.paths) for one in (self, before)]
        return now != then

    def lists(self, path: bytes) -> bool:
        """Whether a normalised path is one of :attr:`paths`, or below one."""
        paths = self.paths or frozenset()
        while path:
            if path in paths:
                return True
            path = path.rpartition(b"/")[0]
        return False

    def leads_to_another(self, path: bytes) -> bool:
        """Whether a normalised path enters the prefix of another fleet's replicas, and none of :attr:`paths`
        opens just that."""
        whole = path.lower() + b"/"
        if not whole.startswith(self.entered):
            return False
        deepest = max((prefix for prefix in self.entered if whole.startswith(prefix)), key=len)
        listed = (open_path + b"/" for open_path in self.paths or ())
        return not any(
            (path + b"/").startswith(opened) and opened.lower().startswith(deepest) for opened in listed
        )
