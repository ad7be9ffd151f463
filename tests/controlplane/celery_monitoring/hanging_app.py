"""The worker's app with tasks of the tests beside its own, and a watchdog that is in a hurry."""

import threading

from controlplane.celery import app
from controlplane.datastores.redis import client
from controlplane.observability import watchdog

RUNS = "test:runs"
"""How often the task that hangs has begun."""
DONE = "test:done"
"""Set: names of the tasks that have ended."""

watchdog.CHECK_EVERY_S = 0.2
watchdog.HANGING_GRACE_S = 1.0
app.conf.broker_transport_options = {**app.conf.broker_transport_options, "visibility_timeout": 1}


@app.task(name="test.hangs_at_first", acks_late=True, ignore_result=True, soft_time_limit=1, time_limit=2)
def hangs_at_first() -> None:
    if client().incr(RUNS) == 1:
        threading.Event().wait()
    client().sadd(DONE, "late")


@app.task(name="test.ends", ignore_result=True)
def ends(name: str) -> None:
    client().sadd(DONE, name)
