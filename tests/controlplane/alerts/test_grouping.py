"""Who is told of what, and when: grouped, not twice, repeated, with its end, and not what is silenced."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from controlplane.alerts.grouping import Audience, DueMessage, GroupKey, Told, due_messages
from controlplane.alerts.lifecycle import OpenAlert
from controlplane.alerts.rule_types import AlertSubject, Severity
from controlplane.alerts.silencing import Silenced, silence_of

KEY = GroupKey("replica_out", "llm")


def alert(
    replica: str, fired_at: float = 0.0, severity: Severity = "warning", fleet: str = "llm"
) -> OpenAlert:
    subject = AlertSubject(fleet, replica)
    return OpenAlert(
        f"id-{fleet}-{replica}", "replica_out", subject, severity, "down", None, fired_at, fired_at
    )


EVERYTHING = Audience()


@dataclass
class Receiver:
    """One destination, asked once a second."""

    audience: Audience = EVERYTHING
    now: float = 0.0
    told: dict[GroupKey, Told] = field(default_factory=dict)

    def ask(
        self,
        firing: Sequence[OpenAlert],
        seconds: float,
        silenced: Sequence[str] = (),
        busy: Sequence[GroupKey] = (),
    ) -> list[tuple[float, DueMessage]]:
        heard = []
        for _ in range(int(seconds)):
            for due in list(
                due_messages(self.audience, firing, frozenset(silenced), self.told, frozenset(busy), self.now)
            ):
                heard.append((self.now, due))
                self.told[due.group] = due.told
                if not due.told.severities:
                    del self.told[due.group]
            self.now += 1
        return heard


def names(due: DueMessage) -> list[str]:
    return [one.subject.replica for one in due.firing]


def test_what_fires_together_is_one_message() -> None:
    rack = [alert(f"r{index:02}", fired_at=index / 10) for index in range(40)]
    ((at, due),) = Receiver().ask(rack, 3600)
    assert at == 10
    assert len(due.firing) == 40


def test_fleets_are_groups_of_their_own() -> None:
    heard = Receiver().ask([alert("a"), alert("a", fleet="other")], 60)
    assert [due.group for _, due in heard] == [KEY, GroupKey("replica_out", "other")]


def test_more_of_a_group_is_told_once_an_interval_and_its_end_at_once() -> None:
    receiver = Receiver()
    receiver.ask([alert("a")], 15)
    ((at, due),) = receiver.ask([alert("a"), alert("b", 15)], 120)
    assert (at, names(due)) == (70, ["a", "b"])
    ((at, due),) = receiver.ask([alert("b", 15)], 120)
    assert (at, names(due), list(due.resolved)) == (135, ["b"], ["id-llm-a"])
    ((_, due),) = receiver.ask([], 600)
    assert (names(due), list(due.resolved)) == ([], ["id-llm-b"])
    assert receiver.told == {}


def test_it_is_repeated_while_it_lasts_but_not_over_one_that_was_not_taken() -> None:
    receiver = Receiver()
    assert [at for at, _ in receiver.ask([alert("a")], 9 * 3600)] == [10, 10 + 4 * 3600, 10 + 8 * 3600]
    assert receiver.ask([alert("a")], 9 * 3600, busy=[KEY]) == []


def test_what_rises_to_critical_is_told_anew() -> None:
    receiver = Receiver()
    receiver.ask([alert("a")], 100)
    ((_, due),) = receiver.ask([alert("a", severity="critical")], 100)
    assert due.firing[0].severity == "critical"


def test_what_is_silenced_is_not_told_and_its_end_is_if_its_begin_was() -> None:
    receiver = Receiver()
    assert receiver.ask([alert("a")], 600, silenced=["id-llm-a"]) == []
    assert receiver.ask([], 600) == []
    receiver.ask([alert("b", receiver.now)], 60)
    assert receiver.ask([alert("b")], 8 * 3600, silenced=["id-llm-b"]) == []
    ((_, due),) = receiver.ask([], 10)
    assert list(due.resolved) == ["id-llm-b"]


def test_when_a_silence_ends_what_still_fires_is_told() -> None:
    receiver = Receiver()
    receiver.ask([alert("a")], 600, silenced=["id-llm-a"])
    ((at, _),) = receiver.ask([alert("a")], 60)
    assert at == 600


def test_a_destination_hears_of_its_fleets_and_severities_only() -> None:
    firing = [alert("a"), alert("b", severity="critical"), alert("c", severity="critical", fleet="other")]
    critical = Receiver(Audience(only_critical=True, fleets=frozenset({"llm"})))
    ((_, due),) = critical.ask(firing, 60)
    assert names(due) == ["b"]


def test_a_silence_covers_what_it_names_until_its_end() -> None:
    one = alert("a")
    wide, narrow = (
        Silenced(1, until=50.0, fleet="llm"),
        Silenced(2, until=90.0, replica="a", rule="replica_out"),
    )
    assert silence_of(one, [wide, narrow], now=10.0) == narrow
    assert silence_of(one, [wide, narrow], now=90.0) is None
    assert silence_of(alert("b"), [wide, narrow], now=10.0) == wide
    assert (
        silence_of(one, [Silenced(3, 99.0, rule="probe_lag"), Silenced(4, 99.0, part="x")], now=0.0) is None
    )
