"""Overloads and shortages: the end of what comes and goes is told only once it has lasted."""

from dataclasses import replace

from controlplane.telemetry.merge import MergeState, ReceivedReport, merge
from controlplane.telemetry.notices.notice import Notice, Notifier, Observed
from controlplane.telemetry.notices.overloads import OverloadNotifier
from controlplane.telemetry.notices.worker_shortages import OVER_AFTER_S, ShortageNotifier
from tests.controlplane.telemetry.reports import fleet, report


def tell(notifier: Notifier[str], seen: Observed, now: float) -> list[str]:
    found: list[Notice[str]] = notifier.pending(seen, now)
    for notice in found:
        notifier.confirm(notice, now)
    return [notice.text for notice in found]


def overload(refuses: bool) -> Observed:
    merged = merge(MergeState(), [ReceivedReport(report(fleets=[fleet()]), 0.1)], 0.0)
    numbers = merged.fleets["digits"]
    numbers.queue = replace(numbers.queue, full_per_s=3.0 if refuses else 0.0, waiting=4)
    return Observed(merged)


def shortage(of: str, *, worker: str = "host/1/0") -> Observed:
    sent = report(worker, short_of=of, max_clients=96, open_fds=250, max_fds=256)
    return Observed(merge(MergeState(), [ReceivedReport(sent, 0.1)], 0.0))


def test_an_overload_ends_a_minute_after_its_last_refusal() -> None:
    notifier = OverloadNotifier()
    assert tell(notifier, overload(False), 0.0) == []
    assert tell(notifier, overload(True), 1.0) == ["digits refuses requests: its queue is full, 4 waiting"]
    assert tell(notifier, overload(False), 30.0) == []
    assert tell(notifier, overload(True), 31.0) == []
    assert tell(notifier, overload(False), 90.0) == []
    assert tell(notifier, overload(False), 91.0) == ["digits no longer refuses requests; it did so for 30 s"]


def test_an_overload_that_a_former_leader_told_ends_without_a_duration() -> None:
    notifier = OverloadNotifier()
    notifier.episodes.resume("digits", 0.0)
    assert tell(notifier, overload(True), 1.0) == []
    assert tell(notifier, overload(False), 61.0) == ["digits no longer refuses requests"]


def test_a_shortage_of_another_resource_is_another_one() -> None:
    notifier = ShortageNotifier()
    full = "worker host/1/0 closes or refuses client connections: it may have 96 at a time"
    assert tell(notifier, shortage("connections"), 0.0) == [full]
    assert tell(notifier, shortage("connections"), 1.0) == []
    used = "worker host/1/0 has 250 of 256 file descriptors in use"
    assert tell(notifier, shortage("descriptors"), 2.0) == [used]
    assert tell(notifier, shortage(""), 1.0 + OVER_AFTER_S) == []
    over = "worker host/1/0 is no longer short of descriptors"
    assert tell(notifier, shortage(""), 2.0 + OVER_AFTER_S) == [over]


def test_of_a_worker_that_is_gone_nothing_more_is_told() -> None:
    notifier = ShortageNotifier()
    tell(notifier, shortage("connections"), 0.0)
    assert tell(notifier, shortage("", worker="host/2/0"), 2.0 + OVER_AFTER_S) == []
    assert notifier.episodes.open == {}
