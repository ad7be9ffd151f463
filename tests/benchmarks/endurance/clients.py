"""The clients of the endurance run: what they saw is folded into counts, so that hours take no memory."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import TextIO

from tests.faults.load import KINDS, LIMIT_S, Load, Result, read_response, request_of

LATE_S = 1.0
EVENT_S = 0.04
"""Between two events of a stream (:mod:`tests.faults.model_server`)."""


class Outcomes:
    """Counts of all requests, and each failure as a line of a file as it happens.

    ``fault``: what is going on now.
    """

    def __init__(self, file: Path, fault: Callable[[], str]) -> None:
        self.asked: Counter[str] = Counter()
        self.late: Counter[str] = Counter()
        """By fault: whole responses that took more than :data:`LATE_S`."""
        self.failed: Counter[tuple[str, str]] = Counter()
        """By fault, and by kind and cause."""
        self.must_not_be: Counter[tuple[str, str]] = Counter()
        """Of those, the ones that could have been sent again."""
        self.held_s = 0.0
        """Seconds for which the clients themselves were held, and sent nothing."""
        self._fault = fault
        self._began = time.monotonic()
        self._file: TextIO = file.open("w", buffering=1)

    def note(self, result: Result) -> None:
        fault = self._fault()
        self.asked[result.kind] += 1
        if result.ok:
            self.late[fault] += result.took_s > LATE_S and result.kind in KINDS
            return
        begun = ", begun" if result.begun else ""
        cause = f"{result.kind}{begun}: {result.cause or f'status {result.status}, cut'}"
        self.failed[fault, cause] += 1
        if result.kind != "unsafe" and not result.begun:
            self.must_not_be[fault, cause] += 1
        at_s = time.monotonic() - self._began
        self._file.write(f"{at_s:.2f}\t{result.took_s:.3f}\t{fault}\t{result.id}\t{cause}\n")

    def listed(self) -> str:
        lines = [f"{sum(self.asked.values()):,} requests: {dict(self.asked)}; held for {self.held_s:.0f} s"]
        lines += [
            f"{count:6} {'!' if key in self.must_not_be else ' '} {key[0]}: {key[1]}"
            for key, count in sorted(self.failed.items())
        ]
        lines += ["! could have been sent again", "", f"whole, but later than {LATE_S:g} s:"]
        lines += [f"{count:6}   {fault}" for fault, count in sorted(self.late.items()) if count]
        return "\n".join(lines)


class FoldedLoad(Load):
    """Keeps nothing of a request that has ended."""

    def __init__(self, port: int, rate: float, outcomes: Outcomes, fields: bytes) -> None:
        super().__init__(port, rate, fields=fields)
        self._outcomes = outcomes

    def begin(self, result: Result) -> None:
        """Nothing is kept."""

    def end(self, result: Result) -> None:
        self._outcomes.note(result)


class LongStreams:
    """So many streams at any time, each of a length of its own, one after the other."""

    def __init__(self, port: int, count: int, outcomes: Outcomes, fields: bytes, rng: Random) -> None:
        self._port, self._count, self._outcomes, self._fields, self._rng = port, count, outcomes, fields, rng
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "LongStreams":
        self._tasks = [asyncio.create_task(self._one_after_the_other(n)) for n in range(self._count)]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _one_after_the_other(self, number: int) -> None:
        await asyncio.sleep(number / 4)
        for turn in range(1_000_000):
            lasts_s = self._rng.uniform(10, 150)
            result = Result(f"long-{number}-{turn}", "long stream", time.monotonic())
            await self._ask(result, lasts_s)
            result.took_s = time.monotonic() - result.began
            self._outcomes.note(result)
            await asyncio.sleep(self._rng.uniform(0, 1))

    async def _ask(self, result: Result, lasts_s: float) -> None:
        writer = None
        try:
            async with asyncio.timeout(2 * lasts_s + LIMIT_S):
                reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
                events = b"X-Fault-Events: %d\r\n" % int(lasts_s / EVENT_S)
                plain = Result(result.id, "stream", result.began)
                writer.write(request_of(plain, events + self._fields))
                await read_response(reader, result)
        except TimeoutError:
            result.cause = "no end"
        except (OSError, asyncio.IncompleteReadError) as problem:
            result.cause = f"cut off: {type(problem).__name__}"
        finally:
            if writer is not None:
                with suppress(OSError):
                    writer.close()
