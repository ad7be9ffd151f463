"""Tracer: begins the record of each request that is sampled. Without one, exchanges know nothing of traces.

A request that is not sampled costs the question alone: its trace goes to the replica as the client sent it.
Of a sampled one the client's ``traceparent`` is taken out, because each attempt has one of its own, with the
attempt's span as the parent.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from time import monotonic
from typing import TypeVar

from routing.contract.tracing import TracingSettings
from routing.http.interfaces import Client
from routing.http.request_head import RequestHead
from routing.http.trace_context import SAMPLED_END, not_sampled, parent_id, span_id_begun, trace_id
from routing.ipc.finished_traces import TraceBuffer
from routing.proxy.exchange.exchange_context import ExchangeContext
from routing.proxy.exchange.state import ExchangeState
from routing.proxy.exchange.upstream_request import without_field
from routing.proxy.tracing.records import Records
from routing.proxy.tracing.sampler import Sampler
from routing.proxy.tracing.trace_record import TraceRecord

_Exchange = TypeVar("_Exchange", bound=ExchangeState)


class Tracer:
    """Of one worker. ``finished``: what it has recorded and nobody has taken yet."""

    def __init__(self, settings: TracingSettings, random: Random) -> None:
        self.sampler = Sampler(settings, monotonic())
        self.finished = TraceBuffer()
        self._random = random

    def new_span_id(self) -> bytes:
        """16 hexadecimal digits, not all of them 0."""
        return b"%016x" % self._random.randint(1, (1 << 64) - 1)


def traced(
    make: Callable[[ExchangeContext, Client, RequestHead], _Exchange],
    tracer: Tracer,
    proxy: ExchangeContext,
    client: Client,
    head: RequestHead,
) -> _Exchange:
    """An exchange, which is recorded if it is sampled."""
    of_client = head.trace
    if of_client is None:
        exchange = make(proxy, client, head)
        # The usual request ends here, and costs little more than without a tracer.
        if exchange.trace.endswith(SAMPLED_END):
            _begin(exchange, tracer)
        return exchange
    if not tracer.sampler.records_asked(of_client, monotonic()):
        return make(proxy, client, head)
    # The head is cached for equal heads of the connection, which may not be sampled.
    head = head.copy()
    head.fields = without_field(b"traceparent:", head.fields)
    exchange = make(proxy, client, head)
    _record(exchange, tracer, trace_id(of_client, b""), tracer.new_span_id(), parent_id(of_client))
    return exchange


def _begin(exchange: ExchangeState, tracer: Tracer) -> None:
    """A trace begins here that is to be recorded."""
    begun = exchange.trace
    if tracer.sampler.records_begun(exchange.started):
        _record(exchange, tracer, trace_id(None, begun), span_id_begun(begun), b"")
    else:
        exchange.continue_trace(not_sampled(begun))


def _record(exchange: ExchangeState, tracer: Tracer, trace: bytes, span: bytes, parent: bytes) -> None:
    record = TraceRecord(exchange, tracer.finished, tracer.new_span_id, trace, span, parent)
    exchange.record_with(record if exchange.record is None else Records(exchange.record, record))
