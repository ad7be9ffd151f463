"""Trace sender: a worker's finished traces go to the master, which exports them, a few times a second.

No request waits for it. While the master takes nothing, traces are dropped and counted.
"""

import asyncio
import contextlib

from routing.ipc.control_channel import TracesFinished, WorkerControlChannel
from routing.ipc.finished_traces import encode
from routing.proxy.tracing.tracer import Tracer

SEND_EVERY_S = 0.25
MAX_UNSENT_BYTES = 4 << 20
FINISH_LIMIT_S = 0.5


class TraceSender:
    """Of one worker."""

    def __init__(self, tracer: Tracer, channel: WorkerControlChannel) -> None:
        self._tracer = tracer
        self._channel = channel
        self._dropped = self._over_limit = 0
        """Up to the last message."""

    async def run(self) -> None:
        while True:
            await asyncio.sleep(SEND_EVERY_S)
            self.send()

    def send(self) -> None:
        traces, spans, dropped = self._tracer.finished.take()
        if self._channel.unsent_bytes > MAX_UNSENT_BYTES:
            self._dropped += dropped + spans
            return
        dropped, self._dropped = dropped + self._dropped, 0
        over, self._over_limit = (
            self._tracer.sampler.over_limit - self._over_limit,
            self._tracer.sampler.over_limit,
        )
        if traces or dropped or over:
            self._channel.send(
                TracesFinished(traces=encode(traces), spans=spans, dropped=dropped, over_limit=over)
            )

    async def finish(self) -> None:
        """Send the last ones, and wait a moment until the master has them."""
        self.send()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FINISH_LIMIT_S):
                while self._channel.unsent_bytes:  # noqa: ASYNC110 (a transport has no event for this)
                    await asyncio.sleep(0.01)
