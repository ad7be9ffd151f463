"""A task that hangs is told, and makes its worker not live."""

import logging
from typing import Any

import pytest

from controlplane.celery import app
from controlplane.celery_monitoring import worker
from controlplane.celery_monitoring.running_tasks import RunningTasks, running_tasks
from controlplane.observability.process import ThisProcess
from controlplane.observability.process_health import Liveness

pytestmark = pytest.mark.any_database
TICK = "controlplane.probes.tasks.tick"


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tasks(clock: Clock) -> RunningTasks:
    return RunningTasks(clock)


def test_a_task_beyond_its_limits_is_told_once_and_then_hangs(
    tasks: RunningTasks, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    tasks.begin("1", TICK, 60, 90)
    clock.now = 60
    tasks.look()
    assert (caplog.messages, tasks.hanging()) == ([], "")
    clock.now = 61
    tasks.look()
    tasks.look()
    assert caplog.messages == [f"the task {TICK} has run for 61 s: from 90 s on it counts as hanging"]
    assert tasks.hanging() == ""
    tasks.begin("2", "another", 60, 10)
    clock.now = 91
    assert tasks.hanging() == f"{TICK} has run for 91 s, and 1 more"
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        assert tasks.end("1") == 91
    assert caplog.messages == [f"the task {TICK} has ended after all, after 91 s"]
    assert tasks.hanging() == "another has run for 30 s"
    assert tasks.end("2") == 30
    assert (tasks.hanging(), tasks.end("2")) == ("", None)


def test_a_worker_with_a_task_that_hangs_is_not_live(tasks: RunningTasks, clock: Clock) -> None:
    process = ThisProcess()
    process.hanging = tasks.hanging
    liveness = Liveness(process, lambda: "ok")
    tasks.begin("1", TICK, 60, 90)
    assert liveness.look().ok
    clock.now = 91
    health = liveness.look()
    assert (health.ok, health.checks) == (False, {"work": f"{TICK} has run for 91 s"})
    tasks.end("1")
    assert liveness.look().ok


def test_limits_are_those_of_the_task() -> None:
    app.loader.import_default_modules()
    task: Any = app.tasks[TICK]
    worker._task_begins("x", task)
    try:
        (running,) = [each for each in running_tasks._snapshot().values() if each.name == TICK]
        assert (running.soft_limit_s, running.limit_s) == (60, 90)
    finally:
        worker._task_ended("x", task)


def test_every_task_has_limits_and_expires() -> None:
    app.loader.import_default_modules()
    ours = [task for name, task in app.tasks.items() if name.startswith("controlplane.")]
    assert len(ours) == 7
    for task in ours:
        assert task.soft_time_limit < task.time_limit
    assert all(entry["options"]["expires"] for entry in app.conf.beat_schedule.values())
