"""How many passes bring back a replica that comes and goes."""

from routing.contract.flap_damping import HELD_S, NEVER_LOST, FlapPenalty, is_short, passes_needed
from routing.contract.probe import Probe

PROBE = Probe(period_s=2.0, rise=2)


def needed_after(*losses_s: float, at_s: float, probe: Probe = PROBE) -> int:
    penalty = NEVER_LOST
    for loss_s in losses_s:
        penalty = penalty.lost(loss_s)
    return passes_needed(probe, penalty, at_s)


def test_two_losses_are_forgiven_and_further_ones_double_what_is_needed() -> None:
    assert needed_after(at_s=0.0) == 2
    assert needed_after(0.0, 1.0, at_s=2.0) == 2
    assert needed_after(0.0, 10.0, 20.0, at_s=21.0) == 4
    assert needed_after(0.0, 10.0, 20.0, 30.0, at_s=31.0) == 8


def test_nobody_is_held_back_for_longer_than_a_minute() -> None:
    assert needed_after(*range(100), at_s=100.0) == HELD_S / PROBE.period_s
    assert needed_after(*range(100), at_s=100.0, probe=Probe(period_s=600, rise=5)) == 5


def test_it_is_forgotten_in_time() -> None:
    assert needed_after(0.0, 10.0, 20.0, at_s=21.0 + 300.0) == 2
    assert FlapPenalty(4.0, 100.0).now(400.0) == 2.0
    assert FlapPenalty(4.0, 100.0).now(0.0) == 4.0  # a clock that was set back


def test_it_can_be_turned_off_and_spares_a_fleet_that_is_short() -> None:
    off = Probe(flap_damping=False)
    assert needed_after(*range(100), at_s=100.0, probe=off) == off.rise
    assert is_short(ready=1, active=3)
    assert not is_short(ready=2, active=4)
