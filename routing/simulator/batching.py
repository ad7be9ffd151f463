"""Server with continuous batching, like vLLM, SGLang and TGI: each request slows the others.

Theory. The server works in steps. In each step every decoding sequence makes one token; the rest of the
step's token budget is used for prefill, in order of arrival. A sequence whose prompt is complete makes its
first token in that step. :mod:`routing.simulator.gpus` has the duration of a step. If the batch is full, or
there is no KV cache memory for a prompt, the request waits in the server. If memory is short for the next
step, the youngest sequence is *preempted*: its memory is freed, it goes to the head of the queue, and its
prompt and output are computed again. Its client keeps what was streamed. A single sequence is never
preempted.

Steps in which nothing begins or ends differ only in the growing KV cache, so many of them are one event. A
new request or a new speed ends that event at the end of the present step.

Responses are streamed. Token counts are reported at the first token, at the last, and every 0.25 s between,
as often as a proxy learns from a stream
(:data:`routing.balancing.attempt.attempt.LEARN_STREAM_EVERY_S`).

Source: Yu et al., "Orca", OSDI 2022 (steps); Kwon et al., "PagedAttention", SOSP 2023 (preemption by
recomputation); Agrawal et al., "Sarathi-Serve", OSDI 2024 (prompts in chunks beside decoding).
"""

from collections import deque
from functools import partial
from heapq import heappop, heappush
from math import ceil, inf

from routing.balancing.attempt.outcome import Outcome
from routing.simulator.engine import Engine
from routing.simulator.gpus import Gpu
from routing.simulator.prefix_cache import PrefixCache
from routing.simulator.requests import Request
from routing.simulator.servers import ResponseListener
from routing.simulator.warm_up import WarmUp

REPORTED_EVERY_S = 0.2501
"""A little more than streams are learned from, so that each time is one to learn from."""


class _Sequence:
    """One request in the server."""

    __slots__ = ("began_at", "chunk", "ends_at", "held", "listener", "made", "reported", "request", "unread")

    def __init__(self, request: Request, listener: ResponseListener) -> None:
        self.request = request
        self.listener = listener
        self.unread = 0
        """Tokens that have to be read in before it makes one."""
        self.chunk = 0
        """Of them, in the step under way."""
        self.held = 0
        """Tokens whose KV it has memory for; while it decodes, as of when it began to."""
        self.made = 0
        """Output tokens; while it decodes, as of when it began to."""
        self.began_at = 0
        """Count of steps when it began to decode."""
        self.ends_at = 0
        """Count of steps at which it has made its last token; 0: it does not decode."""
        self.reported = 0

    @property
    def size(self) -> int:
        """Tokens of its prompt and of what it has made, to be read in when it begins."""
        return max(1, self.request.prompt_tokens) + self.made


class BatchingServer:
    """One model server on one :class:`Gpu`, ``speed`` times as fast.

    ``cached``: what it keeps of prompts whose requests have ended; ``None``: nothing. Keys of requests are
    then the names of their prompts' blocks.
    """

    def __init__(
        self, engine: Engine, speed: float = 1.0, gpu: Gpu | None = None, cached: PrefixCache | None = None
    ) -> None:
        self._engine = engine
        self.gpu = gpu or Gpu()
        self.speed = speed
        self.cached = cached
        self._here: dict[Request, _Sequence] = {}
        self._waiting: deque[_Sequence] = deque()
        self._reading: list[_Sequence] = []
        self._decoding: dict[_Sequence, None] = {}
        """In the order in which they began to decode."""
        self._ends: list[tuple[int, int, _Sequence]] = []
        """By step; those of sequences that have left since are void."""
        self._entries = 0

        self.kv_tokens = 0
        """Held by all sequences."""
        self.steps = 0
        self.busy_s = 0.0
        """Spent in steps that are over."""
        self.preemptions = 0
        self._cold = 0
        """Answers until it is warm; up to then ``_cold_factor`` of its speed."""
        self._cold_factor = 1.0

        # The steps under way.
        self._turn = 0
        """Which plan is in force; the end of an older one is void."""
        self._planned = 0
        """Steps; 0: it is idle."""
        self._began = 0.0
        self._first_s = 0.0
        """Of the first step; each one after it takes ``_growth_s`` more than the one before."""
        self._growth_s = 0.0
        self._report_at = 0.0

    # --- as a Server -----------------------------------------------------------------------------

    def begin(self, request: Request, listener: ResponseListener) -> None:
        self._here[request] = sequence = _Sequence(request, listener)
        self._waiting.append(sequence)
        if not self._planned:
            self._plan()
        elif len(self._decoding) < self.gpu.batch:
            self._cut()

    def cancel(self, request: Request) -> None:
        sequence = self._here.pop(request, None)
        if sequence is None:
            return
        if sequence.held:
            self._cut()
            self._leave(sequence)
        else:
            self._waiting.remove(sequence)

    def drop(self) -> list[ResponseListener]:
        lost = [sequence.listener for sequence in self._here.values()]
        for kept in (self._here, self._waiting, self._reading, self._decoding, self._ends):
            kept.clear()
        if self.cached is not None:
            self.cached.clear()
        self.kv_tokens = self._planned = 0
        self._turn += 1
        return lost

    def set_speed(self, speed: float) -> None:
        self._cut()
        self.speed = speed

    def warm_up(self, warm_up: WarmUp) -> None:
        self._cut()
        self._cold, self._cold_factor = warm_up

    def _answered_cold(self) -> None:
        self._cold -= 1
        if not self._cold:
            # What is planned was planned with the speed of a cold server.
            self._cut()

    @property
    def in_batch(self) -> int:
        return len(self._decoding) + len(self._reading)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    # --- steps -----------------------------------------------------------------------------------

    def _plan(self) -> None:
        """Begin the next step, or as many as are alike."""
        if not self._make_room():
            self._admit()
        prompt_tokens = self._share_budget()
        decoding = len(self._decoding)
        if not decoding and not prompt_tokens:
            self._planned = 0
            return
        gpu = self.gpu
        speed = self.speed * self._cold_factor if self._cold else self.speed
        self._began = now = self._engine.now
        self._first_s = gpu.seconds_of_step(decoding, prompt_tokens, self.kv_tokens) / speed
        self._growth_s = gpu.kv_token_s * decoding / speed
        steps = 1
        if not prompt_tokens:
            steps = min(self._next_end() - self.steps, ceil((self._report_at - now) / self._first_s))
            if decoding > 1:
                steps = min(steps, (gpu.kv_tokens - self.kv_tokens) // decoding)
        self._planned = max(1, steps)
        self._end_plan()

    def _end_plan(self) -> None:
        self._turn += 1
        self._engine.at(self._began + self._seconds_of(self._planned), partial(self._ended, self._turn))

    def _seconds_of(self, steps: int) -> float:
        return steps * self._first_s + self._growth_s * (steps * (steps - 1) / 2)

    def _cut(self) -> None:
        """End after the step under way."""
        if self._planned <= 1:
            return
        passed = self._engine.now - self._began
        steps = min(self._planned, max(1, ceil(passed / self._first_s)))
        while steps > 1 and self._seconds_of(steps - 1) >= passed:
            steps -= 1
        if steps < self._planned:
            self._planned = steps
            self._end_plan()

    def _ended(self, turn: int) -> None:
        """What was planned is done, unless things have changed since."""
        if turn != self._turn:
            return
        now = self._engine.now
        self.steps += self._planned
        self.busy_s += self._seconds_of(self._planned)
        self.kv_tokens += self._planned * len(self._decoding)
        reports: list[tuple[_Sequence, int, bool]] = []
        if now >= self._report_at:
            self._report_at = now + REPORTED_EVERY_S
            for sequence in self._decoding:
                self._report(sequence, reports)
        while self._decoding and self._next_end() <= self.steps:
            sequence = heappop(self._ends)[2]
            self._report(sequence, reports)
            self._leave(sequence)
        if self._reading:
            self._read(reports)
        # What comes of the reports joins no earlier than the step after the next one.
        self._plan()
        for sequence, count, first in reports:
            if self._here.get(sequence.request) is sequence:
                self._pass_on(sequence, count, first)

    def _pass_on(self, sequence: _Sequence, count: int, first: bool) -> None:
        now, listener = self._engine.now, sequence.listener
        if first:
            listener.first_byte(now)
        listener.tokens(now, count)
        if sequence.reported >= sequence.request.output_tokens:
            del self._here[sequence.request]
            if self._cold:
                self._answered_cold()
            listener.ended(now, Outcome.SUCCESS)

    def _report(self, sequence: _Sequence, reports: list[tuple[_Sequence, int, bool]]) -> None:
        made = sequence.made + (self.steps - sequence.began_at if sequence.ends_at else 0)
        if made > sequence.reported:
            reports.append((sequence, made - sequence.reported, not sequence.reported))
            sequence.reported = made

    def _next_end(self) -> int:
        """Count of steps when the first of those that decode will be done."""
        ends = self._ends
        while ends[0][0] != ends[0][2].ends_at:
            heappop(ends)
        return ends[0][0]

    # --- the batch and its memory ------------------------------------------------------------------

    def _make_room(self) -> bool:
        """For what the next step makes; whether somebody had to go."""
        before = self.preemptions
        while self.kv_tokens + len(self._decoding) > self.gpu.kv_tokens and self.in_batch > 1:
            sequence = self._reading[-1] if self._reading else next(reversed(self._decoding))
            if sequence.ends_at:
                sequence.made += self.steps - sequence.began_at
            self._leave(sequence)
            self._waiting.appendleft(sequence)
            self.preemptions += 1
        return self.preemptions > before

    def _admit(self) -> None:
        gpu, waiting = self.gpu, self._waiting
        unread = sum(sequence.unread for sequence in self._reading)
        budget = inf if gpu.step_tokens is None else gpu.step_tokens - len(self._decoding)
        while waiting and self.in_batch < gpu.batch and unread < budget:
            sequence = waiting[0]
            size = sequence.size
            # Room for the step's own tokens is left, or it would be preempted at once.
            if self.in_batch and self.kv_tokens + size + len(self._decoding) > gpu.kv_tokens:
                return
            waiting.popleft()
            sequence.held = sequence.unread = size
            if self.cached is not None and not sequence.made:
                cached = self.cached.take(sequence.request.key, size)
                sequence.request.cached_tokens = cached
                sequence.unread -= cached
            self.kv_tokens += size
            unread += sequence.unread
            self._reading.append(sequence)

    def _share_budget(self) -> int:
        """Hand the step's budget out to prompts; returns the tokens that are read in."""
        limit = self.gpu.step_tokens
        left = None if limit is None else max(1, limit - len(self._decoding))
        tokens = 0
        for sequence in self._reading:
            sequence.chunk = sequence.unread if left is None else min(sequence.unread, left - tokens)
            tokens += sequence.chunk
        return tokens

    def _read(self, reports: list[tuple[_Sequence, int, bool]]) -> None:
        """The chunks of the step are in; who has its whole prompt in has made a token."""
        reading = self._reading
        self._reading = []
        for sequence in reading:
            sequence.unread -= sequence.chunk
            if sequence.unread:
                self._reading.append(sequence)
                continue
            sequence.made += 1
            self._report(sequence, reports)
            left = sequence.request.output_tokens - sequence.made
            if left <= 0:
                self.kv_tokens -= sequence.held
                continue
            sequence.began_at = self.steps
            sequence.ends_at = self.steps + left
            self._decoding[sequence] = None
            self._entries += 1
            heappush(self._ends, (sequence.ends_at, self._entries, sequence))

    def _leave(self, sequence: _Sequence) -> None:
        """It is no longer in the batch, and its memory is free."""
        if sequence.ends_at:
            del self._decoding[sequence]
            self.kv_tokens -= self.steps - sequence.began_at
            sequence.ends_at = 0
        else:
            self._reading.remove(sequence)
        self.kv_tokens -= sequence.held
        sequence.held = 0

    def __repr__(self) -> str:
        return (
            f"<BatchingServer {self.in_batch} of {self.gpu.batch}, {len(self._waiting)} wait, "
            f"{self.kv_tokens} tokens held, speed {self.speed:g}>"
        )
