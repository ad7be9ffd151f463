"""Imported by Python itself in every process of a test with :class:`tests.faults.wall_clock.WallClock`.

libfaketime 0.9.10 takes every ``clock_nanosleep`` until an absolute time for one until a time of the wall
clock, and ``time.sleep`` is that since Python 3.11: it fails with EINVAL, or sleeps on and on. ``select`` it
leaves alone.
"""

import select
import time


def sleep(seconds: float) -> None:
    select.select([], [], [], seconds)


time.sleep = sleep
