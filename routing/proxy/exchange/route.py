"""Route (route match) of a request, as far as its head determines it. Cached for heads with the same route.

A fleet is named, in this order, by: ``/fleets/{name}/…`` (the prefix is removed), the model in a V2 path, the
field ``X-Switchyard-Fleet``, a fleet's match of host and path, the ``model`` of an OpenAI body; else the
default fleet gets it. Names outside the body come first, so that such a request is streamed without being
read.
"""

from __future__ import annotations

from typing import Final

from routing.contract.matches import MatchIndex
from routing.http.request_head import RequestHead
from routing.protocols import (
    answer_shape,
    inference_paths,
    open_inference,
    open_inference_server,
    openai_responses,
)
from routing.protocols.errors import BARE_PATHS, protocol_of_path
from routing.protocols.open_inference_server import ServerQuery

NAMED: Final = 0
IN_BODY: Final = 1
DEFAULT: Final = 2
LOCAL: Final = 3
LOOP: Final = 4
STICKY: Final = 5
OF_SERVER: Final = 6
AMBIGUOUS: Final = 7

_FLEETS: Final = b"/fleets/"
_MODELS: Final = b"/v1/models"
_MOST: Final = 1024
_LONGEST: Final = 256
"""Cached targets, and bytes of each."""


_FIELDS: Final = (
    "bare",
    "by_name",
    "kind",
    "name",
    "opens",
    "protocol",
    "result_mark",
    "server_query",
    "stateless",
    "sticky_id",
    "target",
    "v2",
)


class RequestRoute:
    """Where to look for the fleet, and what is forwarded."""

    __slots__ = _FIELDS

    def __init__(self, target: bytes) -> None:
        self.kind = DEFAULT
        self.name = ""
        """A name of a fleet, an alias or an adapter."""
        self.by_name = False
        """Whether ``name`` determines the fleet."""
        self.bare = False
        """Whether the path is a known one outside ``/v1/``, which may mean something else elsewhere."""
        self.v2 = False
        """Whether the path has the model's name, which is replaced by the one that replicas expect."""
        self.target = target
        self.protocol = protocol_of_path(target)
        """The client's protocol, most likely: for errors while no fleet is known."""
        self.server_query: ServerQuery | None = None
        """What a path of the Open Inference Protocol asks of a server: of the proxy if the kind is ``LOCAL``,
        of the fleet that the request names if it is ``OF_SERVER``. Where the proxy does not reply for that
        fleet, the request is routed as usual."""
        self.stateless: RequestRoute | None = None
        """Set if the kind is ``STICKY``: the route without stickiness."""
        self.opens = inference_paths.AMBIGUOUS
        """What a fleet must expose for the path to pass, as a bit of :mod:`routing.contract.exposure`."""
        self.result_mark = answer_shape.UNJUDGED
        """What the body of an answer has in it (:mod:`routing.protocols.answer_shape`)."""
        self.sticky_id = ""
        """Id of a stored response (or conversation) in the path; empty: none."""

    def find(self, head: RequestHead, via_name: bytes, matches: MatchIndex | None) -> RequestRoute:
        """Itself, filled in from the head."""
        if head.via is not None and _was_here(head.via, via_name):
            self.kind = LOOP
        elif head.method == b"OPTIONS" and (head.target == b"*" or head.max_forwards == 0):
            self.kind = LOCAL
        else:
            self._find(head, matches)
            self.opens = inference_paths.opened_by(head.method, self.target)
            self.result_mark = answer_shape.mark_of(head.method, self.target)
            if self.opens == inference_paths.AMBIGUOUS:
                self.kind = AMBIGUOUS
            elif self.protocol == "openai" and self.kind != LOCAL:
                self._find_sticky(head.method)
            elif self.protocol == "open-inference" and self.by_name:
                self._find_query_of_fleet(head.method)
        return self

    def copy(self) -> RequestRoute:
        """Another one, of which parts are to be changed."""
        other = RequestRoute(self.target)
        for name in _FIELDS:
            setattr(other, name, getattr(self, name))
        return other

    def _find_sticky(self, method: bytes) -> None:
        sticky_id = openai_responses.id_in_path(method, self.target)
        if sticky_id is not None:
            self.stateless = self.copy()
            self.sticky_id = sticky_id
            self.kind = STICKY

    def _find_query_of_fleet(self, method: bytes) -> None:
        """Find what the proxy may answer for a fleet that the request names. Its replicas are asked what
        they are, and whether other models of theirs are ready."""
        reads = method in (b"GET", b"HEAD")
        if self.v2:
            asks = reads and open_inference_server.asks_model_ready(self.target)
            query = ServerQuery.MODEL_READY if asks else None
        else:
            query = open_inference_server.server_query(self.target)
            if query is ServerQuery.METADATA or not (reads or query is ServerQuery.INDEX):
                query = None
        if query is not None and method != b"OPTIONS":
            self.server_query = query
            self.kind = OF_SERVER

    def _find(self, head: RequestHead, matches: MatchIndex | None) -> None:
        target = head.target
        if target.startswith(_FLEETS):
            rest = target[len(_FLEETS) :]
            cut = min((at for at in (rest.find(b"/"), rest.find(b"?")) if at >= 0), default=len(rest))
            self.target = rest[cut:] if rest[cut : cut + 1] == b"/" else b"/" + rest[cut:]
            self.protocol = protocol_of_path(self.target)
            self._named(rest[:cut].decode())
            return
        model = open_inference.model_of(target)
        if model is not None:
            self.v2 = True
            self._named(model)
        elif head.fleet is not None:
            self._named(head.fleet.decode("utf-8", "replace"))
        elif matches is not None and (fleet := matches.find(head.host, target)) is not None:
            self._named(fleet)
        elif _asks_for_models(head):
            self.kind = LOCAL
        elif head.method == b"POST" and target.startswith(b"/v1/"):
            self.kind = IN_BODY
        elif head.method == b"POST" and target.partition(b"?")[0] in BARE_PATHS:
            self.kind = IN_BODY
            self.bare = True
        elif self.protocol == "open-inference" and head.method != b"OPTIONS":
            self.server_query = open_inference_server.server_query(target)
            if self.server_query is not None:
                self.kind = LOCAL

    def _named(self, name: str) -> None:
        self.kind = NAMED
        self.by_name = True
        self.name = name


def _asks_for_models(head: RequestHead) -> bool:
    """Whether it asks for the model list, which the proxy itself replies with."""
    return head.method in (b"GET", b"HEAD") and (
        head.target == _MODELS or head.target.startswith((_MODELS + b"/", _MODELS + b"?"))
    )


def _was_here(via: bytes, name: bytes) -> bool:
    """Whether one of the hops in a Via value is called ``name`` (RFC 9110 §7.6.3)."""
    return any(hop.split()[1:2] == [name] for hop in via.split(b","))


class RouteCache:
    """Cached routes, for requests whose route depends on the target only. Bounded: emptied when full.

    It belongs to one set of matches. When those change, a new cache replaces it.
    """

    __slots__ = ("_by_target", "_via_name", "matches")

    def __init__(self, via_name: bytes, matches: MatchIndex | None = None) -> None:
        self._via_name = via_name
        self.matches = matches
        self._by_target: dict[bytes, RequestRoute] = {}

    def route_of(self, head: RequestHead) -> RequestRoute:
        if self.matches is not None:
            return RequestRoute(head.target).find(head, self._via_name, self.matches)
        target = head.target
        if not (head.plain and head.fleet is None and head.method == b"POST" and len(target) < _LONGEST):
            return RequestRoute(target).find(head, self._via_name, None)
        route = self._by_target.get(target)
        if route is None:
            if len(self._by_target) >= _MOST:
                self._by_target.clear()
            route = RequestRoute(target).find(head, self._via_name, None)
            self._by_target[target] = route
        return route
