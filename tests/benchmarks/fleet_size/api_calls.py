"""Calls of the API beside all else: how long a change takes until every worker has it, and reads of a locked
database."""

import http.client
import json
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any


class Caller:
    """One kept connection with a token."""

    def __init__(self, port: int, token: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self._headers = {"Authorization": f"Token {token}", "Content-Type": "application/json"}

    def __call__(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and answer."""
        data = None if body is None else json.dumps(body)
        try:
            response = self._sent(method, path, data)
        except http.client.RemoteDisconnected:  # it was idle for long
            self._connection.close()
            response = self._sent(method, path, data)
        return response.status, json.loads(response.read() or b"null")

    def _sent(self, method: str, path: str, data: str | None) -> http.client.HTTPResponse:
        self._connection.request(method, f"/api/v1{path}", data, self._headers)
        return self._connection.getresponse()


def timed(call: Caller, method: str, path: str, body: Any = None) -> tuple[float, int, Any]:
    """Milliseconds, status and answer."""
    began = time.perf_counter()
    status, answer = call(method, path, body)
    return (time.perf_counter() - began) * 1000, status, answer


def change_replicas(call: Caller, replicas: int, fleets: int, rounds: int) -> tuple[list[float], int]:
    """Weights of one replica after the other, a change at a time. Milliseconds until the answer that all
    workers have applied it, and how many answers came before they had."""
    took, unfinished = [], 0
    for number in range(rounds):
        replica = number * 97 % replicas
        path = f"/fleets/fleet-{replica % fleets}/replicas/r{replica}"
        ms, status, answer = timed(call, "PATCH", path, {"weight": 1.0 + number % 7 / 10})
        assert status == 200, answer
        workers = answer["workers"]
        unfinished += workers["applied"] < workers["live"] or not workers["live"]
        took.append(ms)
        time.sleep(0.05)
    return took, unfinished


def register_at_once(
    port: int, token: str, urls: list[str], clients: int = 32
) -> tuple[float, list[float], int]:
    """New replicas in one fleet, by so many clients at once. Seconds in all, milliseconds of each until all
    workers have it, and how many were answered before that."""

    def register(part: list[tuple[int, str]]) -> list[tuple[float, bool]]:
        call, found = Caller(port, token), []
        for number, url in part:
            body = {"name": f"new{number}", "url": url}
            ms, status, answer = timed(call, "POST", "/fleets/fleet-0/replicas?trial=no", body)
            assert status == 201, answer
            workers = answer["workers"]
            found.append((ms, workers["applied"] == workers["live"] > 0))
        return found

    numbered = list(enumerate(urls))
    began = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        found = [
            one for part in pool.map(register, (numbered[n::clients] for n in range(clients))) for one in part
        ]
    return time.perf_counter() - began, [ms for ms, _ in found], sum(not done for _, done in found)


def read_locked(
    call: Caller, database: Path, paths: list[str], rounds: int = 5
) -> dict[str, tuple[float, int]]:
    """While another connection writes for long: of each path the longest answer, in ms, and its status."""
    found = dict.fromkeys(paths, (0.0, 0))
    with closing(sqlite3.connect(database, isolation_level=None)) as other:
        other.execute("PRAGMA busy_timeout = 20000")
        for _ in range(rounds):
            other.execute("BEGIN IMMEDIATE")
            for path in paths:
                ms, status, _ = timed(call, "GET", path)
                found[path] = max(found[path], (ms, status))
            other.execute("ROLLBACK")
            time.sleep(0.3)
    return found


def percentile(values: list[float], q: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(q * len(ordered)), len(ordered) - 1)]
