"""What a replica says of its own load: on its page, in words and in figures, while it is new enough."""

import pytest

from controlplane.telemetry import frame_builder, reported_load
from controlplane.telemetry.db_snapshot import DbSnapshot
from controlplane.telemetry.merged_numbers import Merged
from routing.contract.load_report import ReportedLoad
from tests.controlplane.telemetry.test_frames import fleet_row, row


@pytest.mark.parametrize(
    ("load", "words", "short"),
    [
        (
            ReportedLoad(running=12, waiting=3, kv_share=0.8125),
            "12 running, 3 waiting, KV\u00a081\u00a0%",
            "12 + 3, KV\u00a081\u00a0%",
        ),
        (ReportedLoad(running=12, waiting=0), "12 running, 0 waiting", "12"),
        (ReportedLoad(waiting=2), "2 waiting", "0 + 2"),
        (
            ReportedLoad(waiting=0, memory_share=0.5, memory_bytes=2**31),
            "0 waiting, memory\u00a050\u00a0%",
            "memory\u00a050\u00a0%",
        ),
        (ReportedLoad(memory_bytes=3 * 2**29), "1.5 GiB of memory", "1.5 GiB of memory"),
        (ReportedLoad(memory_bytes=0), "not in memory", "not in memory"),
        (ReportedLoad(utilization=1.25, requests_per_s=10.5), *["125\u00a0% utilized, 10.5 req/s"] * 2),
        (ReportedLoad(problem="/metrics: 404 Not Found"), "no load: /metrics: 404 Not Found", ""),
    ],
)
def test_in_words(load: ReportedLoad, words: str, short: str) -> None:
    live = reported_load.live(load)
    assert live is not None
    assert (live.words, live.short) == (words, short)


def test_a_frame_has_it_with_its_age_and_none_that_is_too_old() -> None:
    rows = DbSnapshot("1:4", [fleet_row(row("a"), row("b"), row("c"))])
    loads = {
        "uid-a": ReportedLoad(running=12, waiting=3, kv_share=0.81, age_s=2.5),
        "uid-b": ReportedLoad(running=1, age_s=61.0),
    }
    frames = frame_builder.build(rows, Merged(), {}, loads, sequence=1, at=0.0)
    shown = {replica.name: replica.reported for replica in frames.fleets["digits"].replicas}
    assert (shown["b"], shown["c"]) == (None, None)
    assert shown["a"] is not None
    assert (shown["a"].words, shown["a"].age_s) == ("12 running, 3 waiting, KV\u00a081\u00a0%", 2.5)
    assert (shown["a"].running, shown["a"].waiting, shown["a"].kv_share) == (12, 3, 0.81)
