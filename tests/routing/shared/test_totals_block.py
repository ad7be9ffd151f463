"""Exact totals: they outlive the process that has counted them, however it ended."""

import os
import signal
from collections.abc import Iterator

import pytest

from routing.contract.ended_requests import ERROR_REASONS, EndedRequests, reason_of
from routing.contract.policy import Slo
from routing.shared.fleet_totals import FleetTotals, private_totals
from routing.shared.totals_block import TotalsBlock


@pytest.fixture
def block() -> Iterator[TotalsBlock]:
    made = TotalsBlock.create(workers=2, slots=3)
    yield made
    os.close(made.fd)


def killed_after(block: TotalsBlock, worker: int, served: int) -> None:
    """A worker that has served so many requests, and is killed in the middle of its life."""
    child = os.fork()
    if not child:
        totals = TotalsBlock(block.fd, worker).fleet("llm")
        for _ in range(served):
            totals.served(0.1, 7, 3)
        totals.failed("timeout")
        os.kill(os.getpid(), signal.SIGKILL)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL


def test_a_killed_worker_loses_nothing_and_its_successor_goes_on(block: TotalsBlock) -> None:
    for worker, served in ((0, 1000), (1, 50), (0, 200)):
        killed_after(block, worker, served)
    assert block.ended("llm") == EndedRequests(
        served=1250, input_tokens=8750, output_tokens=3750, errors={"timeout": 3}
    )
    assert block.ended("another") is None


def test_fleets_have_totals_of_their_own_and_always_the_same_object(block: TotalsBlock) -> None:
    """A fleet that is deleted and made again, or staged, must not count beside itself."""
    mine, other = TotalsBlock(block.fd, 0), TotalsBlock(block.fd, 1)
    assert mine.fleet("a") is mine.fleet("a")
    for fleets, name in ((mine, "a"), (mine, "b"), (other, "a"), (other, "c")):
        fleets.fleet(name).client_error()
    counted = {name: found.client_errors for name in "abc" if (found := block.ended(name)) is not None}
    assert counted == {"a": 2, "b": 1, "c": 1}
    # There is no slot left: it counts for itself, and says so by not being in the sums.
    mine.fleet("d").client_error()
    assert mine.fleet("d").report().client_errors == 1
    assert block.ended("d") is None


def test_a_block_of_another_kind_is_refused(block: TotalsBlock) -> None:
    fd = os.memfd_create("other")
    os.ftruncate(fd, 4096)
    with pytest.raises(ValueError, match="of this version"):
        TotalsBlock(fd, 0)
    os.close(fd)
    with pytest.raises(ValueError, match="worker 2 of a block made for workers 0 to 1"):
        TotalsBlock(block.fd, 2)


def test_good_requests_by_objective() -> None:
    totals = private_totals()
    totals.served(9.0, 0, 0)
    totals.stream_began(9.0)
    assert dict(judged(totals)) == {"success": (1, 1), "latency": (0, 0), "first_token": (0, 0)}
    totals.follow(Slo(first_token_s=0.5))
    totals.latency_s = 2.0
    for seconds in (0.1, 0.4, 3.0):
        totals.served(seconds, 0, 0)
        totals.stream_began(seconds)
    totals.served(-1.0, 0, 0)  # a tunnel
    totals.failed("timeout")
    totals.client_error()
    totals.dropped()
    assert dict(judged(totals)) == {"success": (7, 6), "latency": (3, 2), "first_token": (3, 2)}
    assert totals.report().requests == 8


def judged(totals: FleetTotals) -> list[tuple[str, tuple[int, int]]]:
    return [(name, (total, good)) for name, total, good in totals.report().objectives()]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("timeout", "timeout"),
        ("status_503", "status"),
        ("memory_short", "memory"),
        ("of a later version", "other"),
    ],
)
def test_each_code_has_a_reason_from_the_list(code: str, reason: str) -> None:
    assert reason_of(code) == reason
    assert reason in ERROR_REASONS


def test_what_was_counted_between_two_readings() -> None:
    older = EndedRequests(served=3, errors={"timeout": 2}, output_tokens=10)
    newer = EndedRequests(served=5, errors={"timeout": 2, "busy": 1}, output_tokens=30)
    grown = EndedRequests(served=2, errors={"busy": 1}, output_tokens=20)
    assert newer.since(older) == grown
    assert older.plus(grown) == newer
