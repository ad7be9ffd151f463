"""Fuzz both sides of the proxy against h11: ``python -m tests.fuzzing --executions 1000000 --seed 1``.

Prints, for each side, how many were run, how many raised inside the proxy, how many were forwarded although
h11 reads them otherwise, and what became of the messages; each finding with the bytes that show it again.
Exit status 1 if there is one.
"""

import argparse
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

from tests.fuzzing.run import SIDES, run_part

_OF_EXECUTIONS = ("executions", "crashes", "disagreements")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzzing", description=__doc__)
    parser.add_argument("--executions", type=int, default=100_000, help="of each side")
    parser.add_argument("--seed", type=int, default=1, help="of the first; each next one's is one more")
    parser.add_argument("--side", choices=sorted(SIDES), action="append", help="both, where none is given")
    parser.add_argument("--processes", type=int, default=2)
    chosen = parser.parse_args()
    step = 5000
    tasks = [
        (side, chosen.seed + start, min(step, chosen.executions - start))
        for start in range(0, chosen.executions, step)
        for side in chosen.side or SIDES
    ]
    totals: dict[str, Counter[str]] = {side: Counter() for side in chosen.side or SIDES}
    started = time.monotonic()
    with ProcessPoolExecutor(chosen.processes, get_context("spawn")) as pool:
        parts = {pool.submit(run_part, *task): task[0] for task in tasks}
        for part in as_completed(parts):
            side = parts[part]
            counts, findings = part.result()
            totals[side] += counts
            for _, seed, sent, problem in findings[:3]:
                print(f"{side} seed {seed}: {problem}\n  {sent!r}", flush=True)
            if sys.stderr.isatty():
                done = sum(one["executions"] for one in totals.values())
                print(f"\r{done} executions, {time.monotonic() - started:.0f} s", end="", file=sys.stderr)
    for side, counts in totals.items():
        print(_summary(side, counts, chosen.seed))
    return 1 if any(one["crashes"] or one["disagreements"] for one in totals.values()) else 0


def _summary(side: str, counts: Counter[str], seed: int) -> str:
    executions, crashes, disagreements = (counts[name] for name in _OF_EXECUTIONS)
    messages = [f"{number} {name}" for name, number in sorted(counts.items()) if name not in _OF_EXECUTIONS]
    return (
        f"{side}: {executions} executions (seeds {seed} to {seed + executions - 1}), {crashes} crashes, "
        f"{disagreements} forwarded though h11 reads them otherwise; messages: {', '.join(messages)}"
    )


if __name__ == "__main__":
    sys.exit(main())
