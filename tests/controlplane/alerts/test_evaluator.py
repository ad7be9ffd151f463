"""From a picture to rows, the timeline and the outbox, on a real database."""

from collections.abc import Callable

from controlplane.alerts import rule_book, silences
from controlplane.models import Alert, AlertDelivery, AlertDestination, AlertTold, Event
from tests.controlplane.alerts.conftest import Evaluated
from tests.controlplane.alerts.pictures import fleet, picture, replica

Make = Callable[..., AlertDestination]
DOWN = picture(fleet(replica("a", "down"), replica("b", "down")))
WELL = picture()


def states() -> list[tuple[str, str]]:
    return list(Alert.objects.order_by("id").values_list("rule", "state"))


def test_what_fires_stands_in_rows_on_the_timeline_and_in_the_outbox(
    evaluated: Evaluated, llm: str, destination: Make
) -> None:
    destination()
    evaluated.see(DOWN, 30)
    assert states() == [
        ("no_eligible_replica", "pending"),
        ("replica_out", "pending"),
        ("replica_out", "pending"),
    ]
    assert not Event.objects.filter(kind="alert").exists()
    evaluated.see(DOWN, 5)
    assert not AlertDelivery.objects.exists()  # the group waits for more of the same
    evaluated.see(DOWN, 15)
    (event,) = Event.objects.filter(kind="alert")
    assert (event.state, event.fleet_name, event.actor) == ("firing", "llm", "alerts")
    assert event.text == "No eligible replica: no replica takes requests: 2 down"
    (row,) = AlertDelivery.objects.all()
    assert row.message["text"] == "No eligible replica, llm: no replica takes requests: 2 down"
    assert (row.message["status"], row.message["severity"], row.message["fleet"]) == (
        "firing",
        "critical",
        "llm",
    )
    assert evaluated.asked == 1


def test_its_end_is_told_too(evaluated: Evaluated, llm: str, destination: Make) -> None:
    destination()
    evaluated.see(DOWN, 60)
    evaluated.see(WELL, 45)
    assert states() == [("no_eligible_replica", "resolved")]
    assert Event.objects.filter(kind="alert").first().text == "No eligible replica: over after 1 min"  # type: ignore[union-attr]
    first, second = AlertDelivery.objects.order_by("id")
    assert [first.message["status"], second.message["status"]] == ["firing", "resolved"]
    assert second.message["alerts"][0]["resolved_at"] is not None
    assert not AlertTold.objects.exists()


def test_a_restart_in_between_loses_nothing_and_tells_nothing_twice(
    evaluated: Evaluated, llm: str, destination: Make
) -> None:
    destination()
    for _ in range(30):
        evaluated.evaluator = evaluated.another()
        evaluated.see(DOWN, 5)
    assert Alert.objects.filter(rule="no_eligible_replica").count() == 1
    assert AlertDelivery.objects.count() == 1


def test_two_evaluators_at_once_are_as_good_as_one(evaluated: Evaluated, llm: str, destination: Make) -> None:
    destination()
    other = evaluated.another()
    for _ in range(20):
        evaluated.see(DOWN, 5)
        other.evaluate()
    assert AlertDelivery.objects.count() == 1
    assert Event.objects.filter(kind="alert").count() == 1


def test_a_silenced_alert_fires_on_the_page_and_is_not_told(
    evaluated: Evaluated, llm: str, destination: Make
) -> None:
    destination()
    silence = silences.create({"fleet": "llm", "reason": "rack move", "duration_s": 3600}, "anna")
    evaluated.now = silence.created_at.timestamp()
    evaluated.see(DOWN, 120)
    assert Alert.objects.filter(state="firing").count() == 1
    assert not AlertDelivery.objects.exists()
    silences.end(silence.pk, "anna")
    evaluated.see(DOWN, 15)
    assert AlertDelivery.objects.count() == 1


def test_own_rules_and_changed_ones_are_evaluated(evaluated: Evaluated, llm: str) -> None:
    slow = {
        "name": "slow",
        "metric": "p99_s",
        "comparison": "above",
        "value": "800 ms",
        "for_s": 10,
        "fleet": llm,
    }
    rule_book.create(slow, "anna")
    rule_book.update("no_eligible_replica", {"for_s": 300}, "anna")
    evaluated.see(picture(fleet(replica("a", "down"), p99_s=2.0)), 60)
    assert states() == [("no_eligible_replica", "pending"), ("replica_out", "pending"), ("slow", "firing")]
    rule_book.update("no_eligible_replica", {"enabled": False}, "anna")
    rule_book.delete("slow", "anna")
    evaluated.see(picture(fleet(replica("a", "down"), p99_s=2.0)))
    assert states() == [("replica_out", "pending"), ("slow", "resolved")]


def test_nothing_is_written_while_nothing_changes(
    evaluated: Evaluated, llm: str, django_assert_num_queries: Callable[..., object]
) -> None:
    evaluated.see(WELL)
    with django_assert_num_queries(6):  # type: ignore[attr-defined]
        evaluated.see(WELL)
