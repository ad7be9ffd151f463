"""How an alert begins and ends: pending, firing, resolved, and what does not count."""

from controlplane.alerts import builtin_rules, thresholds
from controlplane.alerts.picture import Picture
from controlplane.alerts.thresholds import Threshold
from tests.controlplane.alerts.pictures import NOW, Simulated, fleet, picture, replica, steps

WELL = picture()
NONE_ELIGIBLE = picture(fleet(replica("a", "down"), replica("b", "down")))
"""no_eligible_replica fires after 30 s and is resolved after 30 s; replica_out would after 10 min."""


def test_it_fires_once_its_condition_has_held_and_is_resolved_once_it_has_been_gone() -> None:
    sim = Simulated([rule for rule in builtin_rules.rules() if rule.name == "no_eligible_replica"])
    assert steps(sim.see_for(NONE_ELIGIBLE, 30)) == ["began"]
    assert steps(sim.see_for(NONE_ELIGIBLE, 60)) == ["fired"]
    (alert,) = sim.firing
    assert (alert.since, alert.fired_at) == (NOW, NOW + 30)
    assert steps(sim.see_for(WELL, 30)) == ["faded"]
    assert steps(sim.see_for(WELL, 60)) == ["resolved"]
    assert sim.open == {}


def test_what_ends_before_its_time_is_dropped_and_begins_anew() -> None:
    sim = Simulated()
    for _ in range(20):
        sim.see_for(NONE_ELIGIBLE, 25)
        sim.see_for(WELL, 5)
    assert not any(change.step == "fired" for _, change in sim.log)
    assert sim.open == {}


def test_one_that_comes_back_while_it_fades_is_the_same_alert() -> None:
    sim = Simulated()
    sim.see_for(NONE_ELIGIBLE, 35)
    (before,) = sim.firing
    assert steps(sim.see_for(WELL, 20)) == ["faded", "dropped", "dropped"]
    sim.see_for(NONE_ELIGIBLE, 5)
    (after,) = sim.firing
    assert after.id == before.id
    assert after.gone_since is None


def test_where_nothing_is_known_alerts_stay_as_they_are() -> None:
    sim = Simulated()
    sim.see_for(NONE_ELIGIBLE, 35)
    before = dict(sim.open)
    assert sim.see_for(Picture(), 3600) == []
    assert sim.open == before


def test_what_was_pending_before_a_long_gap_begins_anew() -> None:
    rules = [rule for rule in builtin_rules.rules() if rule.name == "no_eligible_replica"]
    sim = Simulated(rules)
    sim.see(NONE_ELIGIBLE)
    sim.now += 600
    assert steps(sim.see(NONE_ELIGIBLE, lost=frozenset({"no_eligible_replica"}))) == ["dropped", "began"]


def test_a_rule_that_is_switched_off_resolves_what_fires() -> None:
    sim = Simulated()
    sim.see_for(NONE_ELIGIBLE, 35)
    sim.rules = [rule for rule in sim.rules if rule.name != "no_eligible_replica"]
    (change,) = [one for one in sim.see(NONE_ELIGIBLE) if one.step == "resolved"]
    assert change.words == "its rule was switched off or deleted"


def test_words_are_written_anew_once_a_minute_and_severity_at_once() -> None:
    sim = Simulated([rule for rule in builtin_rules.rules() if rule.name == "no_eligible_replica"])
    sim.see_for(NONE_ELIGIBLE, 35)
    other = picture(fleet(replica("a", "down"), replica("b", "unready")))
    covered = picture(fleet(replica("a", "down"), replica("b", "unready"), covered=True))
    assert steps(sim.see_for(other, 60)) == ["reworded"]
    assert steps(sim.see(covered)) == ["reworded"]
    assert sim.firing[0].severity == "warning"


def test_a_threshold_has_two_levels() -> None:
    slow = Threshold("p99_s", "above", 2.0, clear=1.5, fleet="llm")
    rule = thresholds.rule_of("slow", slow, "warning", 10.0, 10.0)
    sim = Simulated([rule])
    for p99_s, wanted in (
        (1.9, []),
        (2.1, ["began"]),
        (1.8, []),
        (1.8, ["fired"]),
        (1.6, []),
        (1.4, ["faded"]),
    ):
        assert steps(sim.see(picture(fleet(p99_s=p99_s)))) == wanted, p99_s
    assert sim.firing[0].words == "p99_s is 1.8 s (p99_s above 2 s)"
