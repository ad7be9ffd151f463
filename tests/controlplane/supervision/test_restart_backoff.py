"""A program that keeps ending is started less and less often; one that is killed now and then at once."""

from controlplane.supervision.restart_backoff import BACKOFF_S, RestartBackoff


def test_one_that_lives_for_seconds_only_is_a_crash_loop() -> None:
    backoff = RestartBackoff()
    waits = [backoff.ended(lived_s=1.5) for _ in range(8)]
    assert waits == [*BACKOFF_S, BACKOFF_S[-1]]


def test_one_that_is_killed_now_and_then_is_started_at_once() -> None:
    backoff = RestartBackoff()
    assert [backoff.ended(lived_s=lived_s) for lived_s in (0.2, 6.0, 60.0, 7.0)] == [0.0] * 4


def test_a_crash_loop_is_forgotten_in_half_a_minute() -> None:
    backoff = RestartBackoff()
    for _ in range(20):
        backoff.ended(lived_s=0.1)
    assert backoff.ended(lived_s=11.0) == 4.0
    assert backoff.ended(lived_s=30.0) == 0.0
