"""Open-loop client of completions: every request is sent at its time, and its stream read as it comes."""

import asyncio
import json
from collections.abc import Sequence
from random import Random
from typing import NamedTuple

LIMIT_S = 300.0
TOKENS = range(300, 4000)
"""Of the vocabulary: no special ones."""


class Job(NamedTuple):
    """One request of a trace."""

    at_s: float
    prompt_tokens: int
    output_tokens: int


class Seen(NamedTuple):
    """What became of it; times in seconds from when it was due."""

    first_s: float
    ended_s: float
    replica: str


def body(job: Job, rng: Random) -> bytes:
    """A prompt of random tokens, none of which the server has seen before, and no early end."""
    asked = {
        "model": "tiny-llm",
        "prompt": [rng.choice(TOKENS) for _ in range(job.prompt_tokens)],
        "max_tokens": job.output_tokens,
        "ignore_eos": True,
        "cache_prompt": False,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    return json.dumps(asked).encode()


async def _one(port: int, job: Job, sent: bytes, due: float) -> Seen:
    loop = asyncio.get_running_loop()
    await asyncio.sleep(due - loop.time())
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = (
        "POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Connection: close\r\nContent-Length: {len(sent)}\r\n\r\n"
    )
    writer.write(head.encode() + sent)
    first_s, replica, made = float("inf"), "", 0
    status = (await reader.readline()).split()[1]
    while line := await reader.readline():
        name, _, value = line.decode().partition(": ")
        if name.lower() == "x-switchyard-replica":
            replica = value.strip()
        elif line.startswith(b"data: {"):
            first_s = min(first_s, loop.time() - due)
            if usage := json.loads(line[6:]).get("usage"):
                made = usage["completion_tokens"]
    ended_s = loop.time() - due
    writer.close()
    if status != b"200" or made != job.output_tokens:
        raise AssertionError(f"{job} at {replica}: {status!r}, {made} tokens")
    return Seen(first_s, ended_s, replica)


async def _all(port: int, jobs: Sequence[Job], seed: int) -> list[Seen]:
    rng = Random(seed)
    bodies = [body(job, rng) for job in jobs]
    began = asyncio.get_running_loop().time() + 0.1
    asked = (_one(port, job, sent, began + job.at_s) for job, sent in zip(jobs, bodies, strict=True))
    async with asyncio.timeout(jobs[-1].at_s + LIMIT_S):
        return await asyncio.gather(*asked)


def send(port: int, jobs: Sequence[Job], seed: int = 1) -> list[Seen]:
    """What became of each, in their order. Raises AssertionError where one was not answered in full."""
    return asyncio.run(_all(port, jobs, seed))
