"""History of minutes: sparse, bounded, and percentiles of longer times from merged sketches."""

from itertools import groupby, pairwise

import msgspec
import pytest
import redis

from controlplane.telemetry import minute_history
from controlplane.telemetry.history_series import coarser, decoded, of_rows
from controlplane.telemetry.measures import FIELDS, HistoryRow, Measures, row
from controlplane.telemetry.merge import MergeState, ReceivedReport, merge
from controlplane.telemetry.minute_collector import LONG_S, MINUTE_S, MinuteCollector
from controlplane.telemetry.minute_history import MinuteHistory, minute_key
from routing.contract.ended_requests import EndedRequests
from routing.contract.sketch import quantile
from routing.contract.telemetry import WorkerReport
from tests.controlplane.telemetry.reports import fleet, key, replica, report, sketch_of

START = 1_790_002_800
"""Unix seconds, a full hour."""


def told(sequence: int) -> WorkerReport:
    """Ten requests a second, one of them failed; replica ``idle`` and key ``8`` are never used."""
    used = replica(
        10 * sequence,
        uid="busy",
        latencies=[0.5] * 9 * sequence,
        failed=sequence,
        failed_by={"lost": sequence},
    )
    counted = fleet(
        10 * sequence,
        latencies=[0.5] * 10 * sequence,
        errors=sequence,
        in_flight=4,
        ended=EndedRequests(served=9 * sequence, errors={"timeout": sequence}, output_tokens=30 * sequence),
        replicas=[used, replica(uid="idle")],
    )
    keys = [key(5 * sequence, id="7", tokens=50 * sequence), key(id="8")]
    return report(sequence=sequence, fleets=[counted], keys=keys, totals="block")


def minutes(seconds: int) -> dict[str, list[HistoryRow]]:
    state, collector = MergeState(), MinuteCollector()
    found: dict[str, list[HistoryRow]] = {}
    for at in range(seconds):
        merged = merge(state, [ReceivedReport(told(at + 1), 0.1)], float(at))
        collector.take(merged, 1.0)
        for subject, one in collector.ended(START + at + 0.3).items():
            found.setdefault(subject, []).append(one)
    return found


def values(one: HistoryRow) -> dict[str, object]:
    return dict(zip(FIELDS, one.values, strict=True))


def test_a_minute_of_each_that_was_used() -> None:
    found = minutes(200)
    assert found.keys() == {"fleet:digits", "replica:busy", "key:7"}
    assert all(len(rows) in (3, 4) for rows in found.values())
    whole = values(found["fleet:digits"][1])
    assert whole["rps"] == 10.0
    assert whole["errors_per_s"] == 1.0
    assert whole["in_flight"] == 4.0
    assert whole["output_tokens_per_s"] == 30.0
    assert whole["error_reasons"] == {"timeout": 1.0}
    assert whole["p99_s"] == pytest.approx(0.5, rel=0.02)
    assert msgspec.json.decode(found["fleet:digits"][1].ended, type=EndedRequests).served == 540
    of_replica = values(found["replica:busy"][1])
    assert (of_replica["rps"], of_replica["error_reasons"]) == (10.0, {"lost": 1.0})
    assert values(found["key:7"][1])["output_tokens_per_s"] == 50.0


def test_where_there_are_very_many_replicas_and_keys_have_longer_rows() -> None:
    state, collector = MergeState(), MinuteCollector()
    rows: list[HistoryRow] = []
    for at in range(1300):
        busy = fleet(at, replicas=[replica(10 * at, uid="busy")])
        heard = ReceivedReport(report(sequence=at + 1, fleets=[busy]), 0.1)
        collector.take(merge(state, [heard], float(at)), 1.0)
        ended = collector.ended(START + at + 0.3, LONG_S if 100 <= at < 1100 else MINUTE_S)
        assert ended.get("fleet:digits", row(Measures(), 0, MINUTE_S)).seconds == MINUTE_S
        rows += [one for subject, one in ended.items() if subject == "replica:busy"]
    assert [seconds for seconds, _ in groupby(one.seconds for one in rows)] == [MINUTE_S, LONG_S, MINUTE_S]
    for before, one in pairwise(rows):
        rate = values(one)["rps"]
        assert rate == pytest.approx(10.0) if one.at - before.at == one.seconds else rate < 10.0


def test_a_clock_that_jumps_loses_at_most_what_was_open() -> None:
    collector = MinuteCollector()
    merged = merge(MergeState(), [ReceivedReport(told(1), 0.1)], 0.0)
    collector.ended(START)
    collector.take(merged, 1.0)
    assert not collector.ended(START - 3600), "back: nothing is over"
    assert list(collector.ended(START)) == ["fleet:digits"], "on by more than a minute: all is"
    assert not collector.ended(START + 120)


def measured(latencies: list[float], at: int) -> HistoryRow:
    found = Measures(requests=len(latencies), reasons={"timeout": 6}, ended=EndedRequests(served=3))
    found.sketch("latency", sketch_of(latencies))
    return row(found, at, MINUTE_S)


def test_percentiles_of_longer_times_are_merged() -> None:
    """Their average would be 1.05 s."""
    slow, fast = measured([2.0] * 30, START + 60), measured([0.1] * 570, START + 120)
    [one] = coarser([slow, fast], 300, START + 300)
    together = sketch_of([2.0] * 30 + [0.1] * 570)
    assert one.at == START + 300
    assert values(one)["p95_s"] == quantile(together, 0.95)
    assert values(one)["p50_s"] == pytest.approx(0.1, rel=0.02)
    assert (values(one)["rps"], values(one)["error_reasons"]) == (2.0, {"timeout": 0.04})
    assert msgspec.json.decode(one.ended, type=EndedRequests).served == 6
    # An hour of such rows is again the same.
    [hour] = coarser([one], 3600, START + 7200)
    assert values(hour)["p95_s"] == values(one)["p95_s"]
    assert values(hour)["rps"] == pytest.approx(2.0 / 12, abs=1e-5)


def test_a_time_that_is_not_over_is_not_told() -> None:
    rows = [measured([0.1], START + second) for second in (60, 120, 180, 300)]
    assert [one.at for one in coarser(rows, 120, START + 200)] == [START + 120, START + 240][:1]


def test_rows_of_an_older_version_lack_the_newest_numbers() -> None:
    short = HistoryRow(START, measured([0.1], START).values[:3])
    series = of_rows([short], ("rps", "retries_per_s", "queue_p99_s", "error_reasons"))
    assert series.values == {
        "rps": [pytest.approx(1 / 60, abs=1e-5)],
        "retries_per_s": [0.0],
        "queue_p99_s": [None],
    }
    assert coarser([short], 300, START + 300)[0].at == START


def keep(client: "redis.Redis", history: MinuteHistory, at: int, *subjects: str) -> None:
    pipeline = client.pipeline()
    history.append(pipeline, dict.fromkeys(subjects, measured([0.1], at)))
    pipeline.execute()


def test_the_idle_go_first_and_the_others_share_what_there_is(
    redis_client: "redis.Redis", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(minute_history, "MOST_SUBJECTS", 3)
    history = MinuteHistory(redis_client)
    monkeypatch.setattr(minute_history, "MOST_BYTES", 30 * history._row_bytes)
    for minute in range(20):
        keep(redis_client, history, START + 60 * minute, "fleet:f", "replica:a", "key:1")
    keep(redis_client, history, START + 1200, "replica:b", "replica:c")
    history.prune(START + 1200)
    kept = {
        name: [one.at for one in minute_history.read(redis_client, name)]
        for name in ("fleet:f", "replica:a", "replica:b", "replica:c", "key:1")
    }
    assert sorted(map(len, kept.values())) == [0, 1, 1, 10, 20], "one of the two idlest went"
    assert len(kept["fleet:f"]) == 20
    assert max(kept["replica:a"] + kept["key:1"]) == START + 60 * 19, "the newest stay"
    assert redis_client.zcard(minute_history.SUBJECTS) == 3
    assert history.row_s == LONG_S, "a day of minutes does not fit"
    history.prune(START + 1200 + minute_history.REACH_S)
    assert redis_client.zcard(minute_history.SUBJECTS) == 0
    assert not redis_client.exists(minute_key("replica:a"))


def test_what_cannot_be_read_is_left_out() -> None:
    good = msgspec.json.encode(measured([0.1], START))
    assert [one.at for one in decoded([b"{}", good, b"nonsense", good], since=START)] == [START, START]
