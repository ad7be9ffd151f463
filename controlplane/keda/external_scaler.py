"""External scaler: answers KEDA from the last scaling signals (:mod:`controlplane.scaling`).

A fleet is active while it needs a replica, and the one metric, with a target of 1 each, is how many it needs.
Where that cannot be told, the metric is an error with the reason, so that KEDA leaves things as they are (or
does what its ``fallback`` says), and the fleet stays active: nothing is scaled to zero for want of a figure.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import NoReturn, Protocol

import grpc
from asgiref.sync import sync_to_async

from controlplane.api import live
from controlplane.keda import external_scaler_pb2 as messages
from controlplane.models import Fleet
from controlplane.scaling.signal import ScalingSignal

SERVICE = "externalscaler.ExternalScaler"
METRIC = "desired-replicas"
LOOK_EVERY_S = 0.5
"""How often a stream looks whether the fleet has become active."""


class Context(Protocol):
    """Of one call, as much of it as is used here."""

    async def abort(self, code: grpc.StatusCode, details: str) -> NoReturn:
        """Ends the call."""


class ExternalScaler:
    """The four calls."""

    async def is_active(self, ref: messages.ScaledObjectRef, context: Context) -> messages.IsActiveResponse:
        fleet = await _fleet(ref, context)
        return messages.IsActiveResponse(result=await _needs_any(fleet))

    async def stream_is_active(
        self, ref: messages.ScaledObjectRef, context: Context
    ) -> AsyncIterator[messages.IsActiveResponse]:
        """At once, and whenever it changes."""
        fleet = await _fleet(ref, context)
        told = None
        while True:
            active = await _needs_any(fleet)
            if active != told:
                yield messages.IsActiveResponse(result=active)
                told = active
            await asyncio.sleep(LOOK_EVERY_S)

    async def get_metric_spec(
        self, ref: messages.ScaledObjectRef, context: Context
    ) -> messages.GetMetricSpecResponse:
        await _fleet(ref, context)
        spec = messages.MetricSpec(metricName=METRIC, targetSize=1, targetSizeFloat=1.0)
        return messages.GetMetricSpecResponse(metricSpecs=[spec])

    async def get_metrics(
        self, request: messages.GetMetricsRequest, context: Context
    ) -> messages.GetMetricsResponse:
        fleet = await _fleet(request.scaledObjectRef, context)
        signal, missing = await _signal(fleet)
        if signal is None or signal.desired is None:
            words = missing or "no proxy reports" if signal is None else signal.words
            await context.abort(grpc.StatusCode.UNAVAILABLE, words)
        value = messages.MetricValue(
            metricName=METRIC, metricValue=signal.desired, metricValueFloat=float(signal.desired)
        )
        return messages.GetMetricsResponse(metricValues=[value])

    def handlers(self) -> grpc.GenericRpcHandler:
        """For a server."""
        ref = messages.ScaledObjectRef.FromString
        unary, stream = grpc.unary_unary_rpc_method_handler, grpc.unary_stream_rpc_method_handler
        methods = {
            "IsActive": unary(self.is_active, ref, messages.IsActiveResponse.SerializeToString),
            "StreamIsActive": stream(self.stream_is_active, ref, messages.IsActiveResponse.SerializeToString),
            "GetMetricSpec": unary(
                self.get_metric_spec, ref, messages.GetMetricSpecResponse.SerializeToString
            ),
            "GetMetrics": unary(
                self.get_metrics,
                messages.GetMetricsRequest.FromString,
                messages.GetMetricsResponse.SerializeToString,
            ),
        }
        return grpc.method_handlers_generic_handler(SERVICE, methods)


async def _fleet(ref: messages.ScaledObjectRef, context: Context) -> str:
    """The name of the fleet that is meant; ends the call where there is none."""
    name = ref.scalerMetadata.get("fleet", "")
    if not name:
        words = "the trigger's metadata has no fleet: add fleet: NAME, beside scalerAddress"
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, words)
    if not await Fleet.objects.filter(name=name).aexists():
        await context.abort(grpc.StatusCode.NOT_FOUND, f'there is no fleet "{name[:80]}"')
    return str(name)


async def _needs_any(fleet: str) -> bool:
    signal, _ = await _signal(fleet)
    return signal is None or signal.desired != 0


async def _signal(fleet: str) -> tuple[ScalingSignal | None, str]:
    return await sync_to_async(live.fresh_scaling, thread_sensitive=False)(fleet)
