"""Replicas that fail together: their host or device is named, once."""

from dataclasses import replace

from controlplane.telemetry.db_snapshot import AcceleratorPlacement, ReplicaRow
from controlplane.telemetry.merged_numbers import Merged
from controlplane.telemetry.notices.failing_together import OVER_AFTER_S, FailingTogetherNotifier
from controlplane.telemetry.notices.notice import Observed
from tests.controlplane.telemetry.test_frames import fleet_row, row

T = 1_000.0


def on(name: str, device: str, health: str = "ready", since: float = T, **more: object) -> ReplicaRow:
    placed = [AcceleratorPlacement(device, 0, 0.0)] if device else []
    return replace(row(name, health=health, **more), placed=placed, health_since=since)


class Watched:
    def __init__(self) -> None:
        self.notifier = FailingTogetherNotifier()
        self.defects: dict[str, str] = {}

    def see(self, *rows: ReplicaRow, now: float = 1.0) -> list[str]:
        observed = Observed(Merged(), [], [fleet_row(*rows)], self.defects)
        notices = self.notifier.pending(observed, now)
        for notice in notices:
            self.notifier.confirm(notice, now)
        return [notice.text for notice in notices]


ELSEWHERE = on("z", "node2/gpu0")


def test_a_host_whose_replicas_fail_within_a_minute_is_named_once() -> None:
    watched = Watched()
    watched.defects = {"node1/gpu1": "XID 79: fell off the bus", "node2/gpu0": "XID 48: x"}
    there = [on("a", "node1/gpu0", "down", T), on("b", "node1/gpu1", "unready", T + 59)]
    (text,) = watched.see(*there, ELSEWHERE)
    assert text == (
        "host node1: all 2 replicas there failed together (digits/a, digits/b), so the host is likelier the "
        "cause than they are; its exporter says node1/gpu1: XID 79: fell off the bus"
    )
    assert watched.see(*there, ELSEWHERE, now=2.0) == []
    healed = [on("a", "node1/gpu0"), on("b", "node1/gpu1")]
    assert watched.see(*healed, ELSEWHERE, now=3.0) == []
    assert watched.see(*healed, ELSEWHERE, now=3.0 + OVER_AFTER_S) == [
        "node1: no longer all replicas there have failed"
    ]


def test_a_device_is_named_where_its_host_has_others_that_are_fine() -> None:
    there = [on("a", "node1/gpu0", "down"), on("b", "node1/gpu0", "down"), on("c", "node1/gpu1")]
    (text,) = Watched().see(*there)
    assert text.startswith("accelerator node1/gpu0: all 2 replicas")


def test_hosts_are_known_by_urls_too() -> None:
    there = [on(name, "", "down", url=f"http://10.0.0.1:900{number}") for number, name in enumerate("ab")]
    (text,) = Watched().see(*there, on("c", "", url="http://10.0.0.2:9000"))
    assert text.startswith("host 10.0.0.1: all 2 replicas")


def test_no_place_is_blamed_for_what_is_not_its_own() -> None:
    one = on("a", "node1/gpu0", "down")
    other = on("b", "node1/gpu1", "down")
    assert Watched().see(one, ELSEWHERE) == []  # a single one may be its own
    assert Watched().see(one, other) == []  # everything fails
    assert Watched().see(one, replace(other, health_since=T + 61), ELSEWHERE) == []  # not together
    assert Watched().see(one, replace(other, health="checking"), ELSEWHERE) == []  # it starts
    assert Watched().see(one, replace(other, admin_state="draining"), ELSEWHERE) == []
