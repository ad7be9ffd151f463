"""Shared prefixes (multi-turn conversations): each prompt of a turn begins with all turns before it.

Theory. Conversations begin at random times. Each has one of a few system prompts, and some of these are
far more usual than others (Zipf). The prompt of a turn is everything before it and a new question. The
next turn comes after 20 ms per token of the answer and a time to read it. The number of turns is
geometric. A server that keeps prompts (prefix cache) reads only the new question of a conversation that
it has had before.

The lengths do not come from a trace. Questions have about 260 tokens and answers about 170; both are
lognormal, as those of traces nearly are.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import NamedTuple

from routing.simulator.arrivals import times
from routing.simulator.fleets import SimulatedFleet
from routing.simulator.gpus import Gpu
from routing.simulator.prefix_cache import packed
from routing.simulator.requests import Request
from routing.simulator.streams import stream
from routing.simulator.workloads import Traffic

_UNDER_WAY_S = 120.0
"""So long before the first request conversations have been beginning: load is the same from the start."""
_MEANS_OF = 2_000
"""Conversations that means are taken from."""


class Turn(NamedTuple):
    """One request of a conversation."""

    after_s: float
    """Since the conversation began."""
    prompt_tokens: int
    output_tokens: int
    blocks: tuple[int, ...]
    """Names of the prompt's whole blocks."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SharedBeginnings:
    """``load`` is of what the fleet could do if every prompt were read as a whole: where much is kept, 1 is
    no overload. The proxy is told prompt and output tokens together, as well as the traffic lets it."""

    name: str = "conversations"
    sentence: str = "turns of conversations, each beginning with all before it, on one of 32 system prompts"
    systems: int = 32
    system_tokens: int = 2048
    turns: float = 5.0
    block_tokens: int = 64
    gpu: Gpu = field(default_factory=Gpu)

    def requests(self, traffic: Traffic, fleet: SimulatedFleet) -> Iterator[Request]:
        names, noise = stream(traffic.seed, "blocks"), stream(traffic.seed, "noise")
        sizes, arrivals = stream(traffic.seed, "sizes"), stream(traffic.seed, "arrivals")
        systems = self._systems(names)
        rate = traffic.load * self.per_s(fleet)
        begun = (at_s - _UNDER_WAY_S for at_s in times(arrivals, rate, _UNDER_WAY_S, traffic.cv))
        coming: list[tuple[float, int, bytes, Turn]] = []
        number = count()
        for begins in (begun, times(arrivals, rate, traffic.duration_s, traffic.cv, traffic.profile)):
            for begins_s in begins:
                while coming and coming[0][0] <= begins_s:
                    yield self._request(heappop(coming), traffic, noise)
                session = b"%016x" % names.getrandbits(64)
                for turn in self.conversation(sizes, names, systems):
                    at_s = begins_s + turn.after_s
                    if 0 <= at_s < traffic.duration_s:
                        heappush(coming, (at_s, next(number), session, turn))
        while coming:
            yield self._request(heappop(coming), traffic, noise)

    def per_s(self, fleet: SimulatedFleet) -> float:
        """Conversations a second that the fleet could serve if it kept nothing."""
        sizes, names = stream(0, "mean lengths"), stream(0, "mean names")
        systems = self._systems(names)
        drawn = [[*self.conversation(sizes, names, systems)] for _ in range(_MEANS_OF)]
        turns = [turn for one in drawn for turn in one]
        prompt = sum(turn.prompt_tokens for turn in turns) / len(turns)
        output = sum(turn.output_tokens for turn in turns) / len(turns)
        return fleet.capacity * self.gpu.requests_per_s(prompt, output) * len(drawn) / len(turns)

    def conversation(self, sizes: Random, names: Random, systems: list[tuple[int, ...]]) -> Iterator[Turn]:
        usual = [1 / rank for rank in range(1, len(systems) + 1)]
        blocks = sizes.choices(systems, usual)[0]
        tokens, after_s = self.system_tokens, 0.0
        for _ in range(1 + int(sizes.expovariate(1 / self.turns))):
            tokens += 10 + int(sizes.lognormvariate(0.0, 0.7) * 200)
            output = 5 + int(sizes.lognormvariate(0.0, 0.8) * 120)
            blocks += tuple(names.getrandbits(62) for _ in range(tokens // self.block_tokens - len(blocks)))
            yield Turn(after_s, tokens, output, blocks)
            tokens += output
            after_s += sizes.expovariate(1 / 4) + output * 0.02

    def _systems(self, names: Random) -> list[tuple[int, ...]]:
        size = self.system_tokens // self.block_tokens
        return [tuple(names.getrandbits(62) for _ in range(size)) for _ in range(self.systems)]

    def _request(self, due: tuple[float, int, bytes, Turn], traffic: Traffic, noise: Random) -> Request:
        at_s, _, session, turn = due
        return Request(
            at_s,
            estimate=traffic.estimate(turn.prompt_tokens + turn.output_tokens, noise),
            prompt_tokens=turn.prompt_tokens,
            output_tokens=turn.output_tokens,
            key=packed(turn.blocks),
            session=session,
        )
