"""How long a live change takes: ``PATCH`` of a fleet's strategy until the last proxy worker applied it.

Run it against a stack that ``make up`` started, with a token (``manage.py createtoken admin bench``):

    SWITCHYARD_TOKEN=… .venv/bin/python -m tests.benchmarks.change_latency --fleet digits

The clock starts before the request is sent and stops when the answer says that every live worker has
applied the new snapshot; so the figure includes HTTP, validation, the database and the audit row.
It prints median and worst of ``--rounds`` changes and leaves the strategy as it found it.
"""

import argparse
import json
import os
import statistics
import sys
import time
import urllib.request
from typing import Any

STRATEGIES = ("round_robin", "least_connections")


def call(url: str, token: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    request = urllib.request.Request(
        url,
        method="GET" if body is None else "PATCH",
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"Token {token}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        result: dict[str, Any] = json.load(answer)
    return result


def measure(url: str, token: str, rounds: int) -> tuple[list[float], int]:
    """Milliseconds of each change, and how many answers came before every worker had applied it."""
    took_ms, unfinished = [], 0
    for number in range(rounds):
        begun = time.perf_counter()
        answer = call(url, token, {"strategy": STRATEGIES[number % 2]})
        took_ms.append((time.perf_counter() - begun) * 1000)
        workers = answer["workers"]
        unfinished += workers["applied"] < workers["live"] or workers["live"] == 0
    return took_ms, unfinished


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--api", default="http://127.0.0.1:8000/api/v1")
    parser.add_argument("--fleet", default="digits")
    parser.add_argument("--rounds", type=int, default=50)
    options = parser.parse_args()
    token = os.environ.get("SWITCHYARD_TOKEN")
    if not token:
        sys.exit("Set SWITCHYARD_TOKEN; make one with: manage.py createtoken admin bench")
    url = f"{options.api}/fleets/{options.fleet}/policy"
    before = call(url, token)["policy"]["strategy"]
    try:
        took_ms, unfinished = measure(url, token, options.rounds)
    finally:
        call(url, token, {"strategy": before})
    print(
        f"{options.rounds} changes: median {statistics.median(took_ms):.1f} ms, worst {max(took_ms):.1f} ms; "
        f"{unfinished} answered before every worker had applied it"
    )


if __name__ == "__main__":
    main()
