"""Many executions one after another, each from a seed of its own, so that one alone can be repeated."""

import asyncio
from collections import Counter
from collections.abc import Callable
from random import Random

from tests.fuzzing import generate
from tests.fuzzing.judge import judge_requests, judge_response
from tests.fuzzing.wire import Wire

SIDES: dict[str, tuple[Callable[[Random], bytes], Callable[[Wire, Random, bytes, Counter[str]], str]]] = {
    "requests": (generate.requests, judge_requests),
    "responses": (generate.responses, judge_response),
}
Finding = tuple[str, int, bytes, str]
"""Side, seed, bytes, what is wrong."""


async def run(side: str, first_seed: int, count: int) -> tuple[Counter[str], list[Finding]]:
    """``count`` executions, each with a seed of its own, so that one alone can be repeated."""
    make, judge = SIDES[side]
    counts: Counter[str] = Counter()
    findings: list[Finding] = []
    wire = Wire()
    for seed in range(first_seed, first_seed + count):
        random = Random(seed)
        sent = make(random)
        counts["executions"] += 1
        try:
            problem = judge(wire, random, sent, counts)
            kind = "disagreements"
        except Exception as error:  # whatever it is, it is a finding
            problem, kind = f"{type(error).__name__}: {error}", "crashes"
            wire = Wire()
        if problem:
            counts[kind] += 1
            findings.append((side, seed, sent, problem))
        if not seed % 100:
            await asyncio.sleep(0)  # what was put off to the loop's next turn
    return counts, findings


def run_part(side: str, first_seed: int, count: int) -> tuple[Counter[str], list[Finding]]:
    """As :func:`run`, in an event loop of its own."""
    return asyncio.run(run(side, first_seed, count))
