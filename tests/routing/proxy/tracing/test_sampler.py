"""Sampler: whose word decides, and how many are recorded at most."""

from collections import Counter
from random import Random

import pytest

from routing.contract.tracing import TracingSettings
from routing.proxy.tracing.sampler import Sampler


def context(flags: str = "01", trace: int = 1) -> bytes:
    return f"00-{trace:032x}-b7ad6b7169203331-{flags}".encode()


def test_what_begins_here_is_decided_when_it_begins() -> None:
    sampler = Sampler(TracingSettings(), 0.0)
    assert sampler.records_begun(0.0)


@pytest.mark.parametrize(("flags", "expected"), [("01", True), ("00", False), ("03", True), ("fe", False)])
def test_a_clients_flag_decides(flags: str, expected: bool) -> None:
    sampler = Sampler(TracingSettings(ratio=1.0 - expected), 0.0)
    assert sampler.records_asked(context(flags), 0.0) is expected


def test_without_parents_the_id_decides() -> None:
    sampler = Sampler(TracingSettings(ratio=0.25, follows_parent=False, traces_per_s=10_000), 0.0)
    random = Random(7)
    found = Counter(sampler.records_asked(context("00", random.getrandbits(128)), 0.0) for _ in range(4000))
    assert 900 < found[True] < 1100
    low, high = (1 << 62) - 1, 1 << 62
    assert sampler.records_asked(context("00", low), 0.0)
    assert not sampler.records_asked(context("01", high), 0.0)


def test_clients_can_ask_for_so_many_only_and_take_none_from_the_others() -> None:
    sampler = Sampler(TracingSettings(traces_per_s=10.0), 0.0)
    asked = sum(sampler.records_asked(context(), at / 1000) for at in range(10_000))
    assert 110 <= asked <= 121
    assert sampler.over_limit == 10_000 - asked
    begun = sum(sampler.records_begun(10 + at / 1000) for at in range(1000))
    assert 29 <= begun <= 31


def test_none() -> None:
    sampler = Sampler(TracingSettings(traces_per_s=0.0), 0.0)
    assert not any(sampler.records_asked(context(), float(at)) for at in range(100))
