"""Response sniffer: reads a copy of a replica's response until the id of the stored response is known."""

from __future__ import annotations

from routing.http.chunked import ChunkedDecoder
from routing.http.errors import BadChunk
from routing.http.syntax import HEAD_END
from routing.protocols.openai_responses import CreatedIdSearch
from routing.proxy.exchange.state import ExchangeState
from routing.shared.sticky_ids import ReplicaRef

_CHUNKED = b"\r\nTransfer-Encoding: chunked\r\n"
_EVENTS = b"text/event-stream"


class ResponseSniffer:
    """A listener of :meth:`routing.http.interfaces.Client.tap_writes`: gets the same bytes as the client."""

    __slots__ = ("_chunks", "_exchange", "_search")

    def __init__(self, exchange: ExchangeState) -> None:
        self._exchange = exchange
        self._search: CreatedIdSearch | None = None
        """``None``: the head has not come."""
        self._chunks: ChunkedDecoder | None = None

    def __call__(self, data: bytes) -> bool:
        """Whether it needs more of the response."""
        search = self._search
        if search is None:
            status = int(data[9:12])
            if status < 200:
                return True
            if status >= 300:
                return False
            head, _, data = data.partition(HEAD_END)
            self._search = search = CreatedIdSearch(head.find(_EVENTS) >= 0)
            if (head + b"\r\n").find(_CHUNKED) >= 0:
                self._chunks = ChunkedDecoder()
        try:
            names = search.feed(data if self._chunks is None else self._chunks.feed(data))
        except BadChunk:
            return False
        if names is None:
            return not search.exhausted
        self._learn(names)
        return False

    def _learn(self, names: tuple[str, ...]) -> None:
        exchange = self._exchange
        assert exchange.pool is not None
        assert exchange.attempt is not None
        replica = exchange.attempt.replica
        for name in names:
            exchange.proxy.sticky_registry.learn(
                name, ReplicaRef(exchange.pool.name, replica.uid, replica.name)
            )
