"""Cost model of a llama.cpp server: CPU seconds of its steps, measured on an otherwise idle one.

The four costs of :class:`routing.simulator.gpus.Gpu` are fitted (least squares of relative errors) to steps
with one sequence up to all slots, with short and long contexts, and to prompts. CPU seconds are those of the
process, so they are of a whole core whatever share of it the process has.
"""

from statistics import median

import numpy as np

from routing.simulator.gpus import Gpu
from tests.benchmarks.llama.client import Job, send
from tests.benchmarks.llama.cpu_shares import cpu_s
from tests.benchmarks.llama.server import SLOT_TOKENS, SLOTS, STEP_TOKENS, LlamaServer

STEPS = 40
DECODED = [(1, 1), (2, 1), (4, 1), (8, 1), (1, 100), (2, 100), (4, 100), (8, 100), (1, 300), (4, 200)]
"""Sequences at once, and how many tokens each has before its first step."""
READ = (50, 100, 150, 250)
"""Tokens of prompts."""
ROUNDS = 3


def calibrated(server: LlamaServer) -> Gpu:
    """At speed 1: one whole core."""
    used_s(server, 1, READ[-1], STEPS)
    rows, costs = [], []
    for count, context in DECODED:
        # All steps less those that read the prompt and make its first token.
        more = [
            used_s(server, count, context, 1 + STEPS) - used_s(server, count, context, 1)
            for _ in range(ROUNDS)
        ]
        rows.append([1.0, count, count * (context + STEPS / 2)])
        costs.append(median(more) / STEPS)
    step_s, sequence_s, kv_token_s = fitted(rows, costs)
    reads = [median(used_s(server, 1, tokens, 1) for _ in range(ROUNDS)) for tokens in READ]
    _, prompt_token_s = fitted([[1.0, tokens] for tokens in READ], reads)
    return Gpu(
        step_s=step_s,
        sequence_s=sequence_s,
        kv_token_s=kv_token_s,
        prompt_token_s=prompt_token_s,
        batch=SLOTS,
        step_tokens=STEP_TOKENS,
        kv_tokens=SLOTS * SLOT_TOKENS,
    )


def used_s(server: LlamaServer, count: int, prompt_tokens: int, output_tokens: int) -> float:
    """CPU seconds of so many alike at once."""
    before = cpu_s(server.pid)
    send(server.port, [Job(0.0, prompt_tokens, output_tokens)] * count)
    return cpu_s(server.pid) - before


def fitted(rows: list[list[float]], costs: list[float]) -> list[float]:
    """Coefficients of the columns, none below 0; errors count as shares of the costs."""
    known = np.array(costs)
    found = np.linalg.lstsq(np.array(rows) / known[:, None], np.ones(len(known)), rcond=None)[0]
    return [max(0.0, float(one)) for one in found]
