"""Request ids, local answers, the sweeper."""

import asyncio
from itertools import islice

import pytest

from routing.http.answers import answer
from routing.http.request_ids import request_ids
from routing.http.sweep import Sweeper
from routing.http.trace_context import TRACEPARENT, trace_id, trace_parents
from tests.proxy.rig import undated, until


def test_request_ids_are_distinct_and_of_one_shape() -> None:
    first, second = list(islice(request_ids(), 1000)), list(islice(request_ids(), 10))
    assert len({*first, *second}) == 1010
    assert all(len(one) == 24 and int(one, 16) >= 0 for one in first)
    assert len({one[:16] for one in first}) == 1


@pytest.mark.parametrize(("percent", "share"), [(0.0, 0.0), (30.0, 0.3), (100.0, 1.0)])
def test_begun_traces_are_distinct_and_valid(percent: float, share: float) -> None:
    begun = list(islice(trace_parents(percent), 2000))
    values = [field.removeprefix(b"\r\ntraceparent: ") for field in begun]
    assert all(TRACEPARENT.match(value) for value in values)
    ids = [trace_id(None, field) for field in begun]
    assert [value.split(b"-")[1] for value in values] == ids
    assert len(set(ids)) == len(values)
    sampled = sum(value.endswith(b"-01") for value in values)
    assert sampled == pytest.approx(share * len(values), abs=100 if 0 < share < 1 else 0)


def test_answer() -> None:
    assert undated(answer(404, "text/plain", b"no", fields=b"\r\nA: 1", close=True)) == (
        b"HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nContent-Length: 2\r\nA: 1\r\n"
        b"Connection: close\r\n\r\nno"
    )
    assert answer(200, "a/b", b"body", head_only=True).endswith(b"Content-Length: 4\r\n\r\n")


class Member:
    def __init__(self, sweeper: Sweeper, limit: int) -> None:
        self.deadline = 0.0
        self.checks = 0
        self._sweeper, self._limit = sweeper, limit

    def check(self, now: float) -> None:
        self.checks += 1
        if self.checks == self._limit:
            self._sweeper.discard(self)


async def test_sweeper_runs_while_it_has_members() -> None:
    sweeper = Sweeper(asyncio.get_running_loop())
    first, second, later = Member(sweeper, 1), Member(sweeper, 2), Member(sweeper, 1)
    later.deadline = float("inf")
    for member in (first, second, later):
        sweeper.add(member)
    await until(lambda: second.checks == 2)
    assert (first.checks, later.checks) == (1, 0)
    sweeper.discard(later)
    await until(lambda: sweeper._timer is None)
