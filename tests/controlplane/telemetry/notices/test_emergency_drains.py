"""Emergency drains at single proxies, and their ends, are told once."""

from controlplane.telemetry.merge import MergeState, ReceivedReport, merge
from controlplane.telemetry.notices.emergency_drains import GONE_AFTER_S, EmergencyDrainNotifier
from controlplane.telemetry.notices.notice import Observed
from routing.contract.telemetry import EmergencyDrainReport
from tests.controlplane.telemetry.reports import report


def observed(left_s: float | None, *, worker: str = "host/1/0") -> Observed:
    drains = (
        [] if left_s is None else [EmergencyDrainReport(fleet="digits", replica="a", expires_in_s=left_s)]
    )
    return Observed(merge(MergeState(), [ReceivedReport(report(worker, drained_by_hand=drains), 0.1)], 0.0))


def tell(notifier: EmergencyDrainNotifier, seen: Observed, now: float) -> list[str]:
    found = notifier.pending(seen, now)
    for notice in found:
        notifier.confirm(notice, now)
    return [notice.text for notice in found]


def test_a_drain_that_runs_out_says_so_and_one_that_is_lifted_does_not() -> None:
    notifier = EmergencyDrainNotifier()
    began = "emergency drain of a at proxy host/1, for another 5 s"
    ended = "emergency drain of a at proxy host/1 has ended"
    assert tell(notifier, observed(5.0), 0.0) == [began]
    assert tell(notifier, observed(4.0), 1.0) == []
    assert tell(notifier, observed(None), 5.0) == ["emergency drain of a at proxy host/1 has expired"]
    assert tell(notifier, observed(60.0), 6.0) == [began.replace("5 s", "1 min")]
    assert tell(notifier, observed(59.0), 7.0) == []
    assert tell(notifier, observed(None), 8.0) == [ended]


def test_a_proxy_that_is_silent_may_be_back_in_a_moment() -> None:
    notifier = EmergencyDrainNotifier()
    tell(notifier, observed(3600.0), 0.0)
    assert tell(notifier, observed(None, worker="host/2/0"), GONE_AFTER_S - 1) == []
    gone = ["proxy host/1, with an emergency drain of a, no longer reports"]
    assert tell(notifier, observed(None, worker="host/2/0"), GONE_AFTER_S) == gone
